package openhands

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	liveLimit  = 30 * time.Second // for the first sign of a socket
	maxRefused = 3                // sockets that are tried before the first turn, of both kinds
	createTry  = 4
)

// MinVersion is the oldest server that is spoken to: older ones lose a conversation in
// which they have crashed.
const MinVersion = "1.44.0"

// open asks who the server is, and opens the conversation.
func (d *driver) open() error {
	info, err := d.call(requestInfo())
	if err != nil {
		return d.ending(err)
	}
	if d.agent.Version = text(info.Get("version")); d.agent.Version == "" {
		return notServer(d.cfg.Server.URL)
	}
	if err := CheckVersion(string(d.agent.Version)); err != nil {
		return Misconfigured("%v", err)
	}
	old, damage := session.LoadConversation(d.cfg.Place.State)
	id, reason := d.cfg.candidate(old)
	if damage != nil {
		d.warn("conversation", damage.Error())
		reason = damage.Error()
	}
	if id == "" {
		d.meter.Fresh()
		return d.start(reason, "")
	}
	lost, err := d.attach(old, id)
	if err != nil {
		return d.ending(err)
	}
	if lost != "" {
		return d.lose(old, id, lost)
	}
	if d.conv = old; old == nil || string(old.SessionID) != id {
		d.conv = d.newConversation(reason)
		d.conv.Seeded = true
	}
	return d.goOn(id)
}

// goOn takes an earlier run's conversation over.
func (d *driver) goOn(id string) error {
	d.ResumeConversation(d.conv)
	d.conv.Launch, d.resumed = d.cfg.launch(), true
	d.meter.Carry(d.conv.Carried)
	if d.meter.Resumed(d.conv.Used()); d.before != nil {
		d.meter.ResumedAt(d.before)
	}
	if !d.conv.Seeded && d.conv.Replaces != "" { // its run died before it could say so
		if err := d.rehydrate(string(d.conv.Replaces), string(d.conv.ResetReason)); err != nil {
			return err
		}
	}
	return d.opened(id, wire.EventSessionResumed, "")
}

// CheckVersion says what is wrong with the version of a server, or nil.
func CheckVersion(version string) error {
	var have, least [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err != nil {
		return fmt.Errorf("agent-server has the version %q, which is none", version)
	}
	_, _ = fmt.Sscanf(MinVersion, "%d.%d.%d", &least[0], &least[1], &least[2]) // our own
	for i := range have {
		if have[i] != least[i] {
			if have[i] < least[i] {
				return fmt.Errorf("agent-server %s is older than %s, the oldest that is supported", version, MinVersion)
			}
			break
		}
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// candidate returns the conversation to go on with, or "" and why there is none.
func (c *Config) candidate(old *session.Conversation) (id, reason string) {
	switch {
	case c.Resume == session.ResumeNever:
		return "", "a fresh conversation was asked for"
	case c.Resume != session.ResumeAuto:
		return c.Resume, "the conversation was named"
	case c.Agent.Reuse == session.ReuseNever:
		return "", "every run begins a fresh conversation"
	case old == nil:
		return "", ""
	}
	if why := old.Mismatch(Harness, contract, c.Place); why != "" {
		return "", why
	}
	if old.ReusePolicy != c.Agent.Reuse {
		return "", fmt.Sprintf("the conversation was recorded with reuse policy %q", old.ReusePolicy)
	}
	return string(old.SessionID), ""
}

// start makes a conversation, which stands in for replaces unless that is "". Its id is
// ours and is written down before, so that it is found again whatever becomes of the
// answer.
func (d *driver) start(reason, replaces string) error {
	id, err := newID(d.cfg.Rand)
	if err != nil {
		return session.Failf(wire.CauseInternal, "make an id: %v", err)
	}
	d.conv = d.newConversation(reason)
	d.conv.SessionID, d.conv.Replaces, d.conv.Carried = wire.Text(id), wire.Text(replaces), d.meter.Carried()
	if err := d.saveConversation(); err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	if err := d.create(id); err != nil {
		return d.ending(err)
	}
	return d.opened(id, wire.EventSessionStarted, reason)
}

// create may be repeated: the server knows the id.
func (d *driver) create(id string) error {
	body := d.cfg.Agent.createBody(id, d.cfg.Place.Workspace.Path)
	if tools := clientTools(d.cfg.Tools); tools != nil {
		body["client_tools"] = tools
	}
	for attempt := int64(1); ; attempt++ {
		info, err := d.call(requestCreate(body))
		if err == nil {
			d.reach.status = info.Get("execution_status").Str
			d.store = d.cfg.store(info)
			return nil
		}
		again := statusOf(err) == http.StatusTooManyRequests || attempt < createTry && unclear(err)
		if isEnding(err) || !again {
			return err
		}
		d.retry("create", err, attempt)
		if err := d.sleep(min(time.Duration(attempt)*runAgain, linkMost)); err != nil {
			return err
		}
	}
}

// newID returns a random UUID.
func newID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"), nil
}

// opened takes over the conversation: what it has by now is no part of this run.
func (d *driver) opened(id, event, reason string) error {
	d.id = id
	d.em.Session(id)
	events, err := d.baseline()
	if err != nil {
		return d.ending(err)
	}
	if err := d.follow(events); err != nil {
		return err
	}
	said := d.cfg.planned()
	said.Peer, said.Reason = &d.agent, wire.Text(reason)
	said.PromptKind = wire.Text(d.cfg.Plan.First(d.conv.Seeded).Kind)
	d.em.Emit(event, said, nil)
	now := wire.At(d.cfg.Now())
	d.conv.SessionID, d.conv.Status, d.conv.AttachedAt = wire.Text(id), session.StatusActive, now
	d.conv.Route, d.conv.PersistenceDir = d.cfg.Route, wire.Text(d.store)
	if d.server == nil { // else the address is another the next time
		d.conv.ServerURL = wire.Text(d.cfg.Server.URL)
	}
	if err := d.saveConversation(); err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	return nil
}

// baseline returns the number of events in the log, and remembers the newest.
func (d *driver) baseline() (int64, error) {
	n, err := d.call(requestCount(d.id))
	if err != nil || n.Int() == 0 {
		return 0, err
	}
	page, err := d.call(requestNewest(d.id, "", 1))
	if err != nil {
		return 0, err
	}
	d.log.last = page.Get("items.0.id").Str
	d.log.fresh(d.log.last)
	return n.Int(), nil
}

// follow opens the socket and waits until it is live, so that nothing is missed. Where
// none can be had the log is read by REST.
func (d *driver) follow(events int64) error {
	l := newLink(d.client, d.id, events)
	d.link, d.frames = l, l.frames
	ctx := d.talk
	d.Beside(func(context.Context) { l.run(ctx) })
	due := d.Clocks.Elapsed() + liveLimit
	settled := func() bool {
		return d.reach.live || d.Clocks.Elapsed() >= due || d.reach.refused >= maxRefused
	}
	if err := session.Until(d.step, settled); err != nil {
		return err
	}
	if !d.reach.live {
		d.warn("link", d.unready()+": no socket to the agent-server can be had: its events are read every second")
	}
	return session.Until(d.step, func() bool { return !d.log.filling })
}

func (d *driver) newConversation(reason string) *session.Conversation {
	c := d.NewConversation(Harness, contract, d.cfg.Agent.Reuse, reason)
	c.Launch = d.cfg.launch()
	return c
}

func (d *driver) saveConversation() error {
	d.conv.PeerStatus = wire.Text(d.reach.status)
	if !d.usedAt.IsZero() {
		d.conv.UsageAt = wire.At(d.usedAt)
	}
	return d.SaveConversation(d.conv)
}

// seeded notes that the conversation has got its prompt: only then does a later run
// send the short one.
func (d *driver) seeded() {
	if d.conv.Seeded {
		return
	}
	d.conv.Seeded = true
	if err := d.saveConversation(); err != nil {
		d.warn("conversation", err.Error())
	}
}
