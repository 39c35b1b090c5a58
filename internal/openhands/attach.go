package openhands

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/openhands/spawn"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	goneLimit  = 5 * time.Second  // for a conversation that a restarted server does not show yet
	quietLimit = 30 * time.Second // for the end of a run that an earlier run of ours has left
)

// attach prepares an earlier conversation for another run. lost says why it cannot be
// gone on with. old is what was recorded last, perhaps of another.
func (d *driver) attach(old *session.Conversation, id string) (lost string, err error) {
	if !uuid.MatchString(id) {
		return fmt.Sprintf("%q is no conversation's id", id), nil
	}
	d.store = d.cfg.store(gjson.Result{})
	if lost := moved(old, id, d.store); lost != "" {
		return lost, nil
	}
	grace := goneLimit
	if old != nil && string(old.SessionID) == id && !old.Seeded {
		grace = 0 // nothing is in it, and perhaps it was never made
	}
	info, err := d.find(id, grace)
	switch status := statusOf(err); {
	case status == http.StatusNotFound, status == http.StatusUnprocessableEntity:
		return "agent-server does not know the conversation", nil
	case err != nil:
		return "", err
	}
	if dir := info.Get("workspace.working_dir").Str; dir != "" && dir != d.cfg.Place.Workspace.Path {
		// Another's run may be at work there, whose lock is not ours.
		return fmt.Sprintf("the conversation works in another folder, %q", dir), nil
	}
	d.id, d.reach.status, d.store = id, info.Get("execution_status").Str, d.cfg.store(info)
	d.countBefore(info)
	d.missTools(info)
	if lost = moved(old, id, d.store); lost == "" {
		lost, err = d.quiet()
	}
	switch {
	case err != nil:
	case lost != "":
		err = d.settle() // only its log tells what became of the texts of a run that has died
	default:
		err = d.adjust()
	}
	if lost != "" || err != nil {
		d.id = ""
	}
	return lost, err
}

// store is the folder in which the server keeps its conversations, "" where it does not
// say. It names that of one of them, which ends in the id.
func (c *Config) store(info gjson.Result) string {
	if sp := c.Server.Spawn; sp != nil {
		return spawn.Conversations(sp.Dir)
	}
	dir, id := info.Get("persistence_dir").Str, info.Get("id").Str
	if parent, last := filepath.Split(dir); dir != "" && last == strings.ReplaceAll(id, "-", "") {
		return filepath.Clean(parent)
	}
	return dir
}

// moved tells whether the recorded conversation was kept elsewhere: what this server
// calls by its id is another's, or a copy that has gone ways of its own.
func moved(old *session.Conversation, id, now string) string {
	if old == nil || string(old.SessionID) != id || old.PersistenceDir == "" || now == "" || string(old.PersistenceDir) == now {
		return ""
	}
	return fmt.Sprintf("the conversation was kept in %q, and the server keeps its own in %q", string(old.PersistenceDir), now)
}

// countBefore takes what the conversation has used before this run. The server knows also
// what a run has used that died, which no file of ours has.
func (d *driver) countBefore(info gjson.Result) {
	d.before, _ = sumUsage(info.Get("stats.usage_to_metrics"))
}

// find gets the conversation. One that a server does not know just after its start may
// still be another's, who has died, for a moment.
func (d *driver) find(id string, grace time.Duration) (gjson.Result, error) {
	for due := d.Clocks.Elapsed() + grace; ; {
		info, err := d.call(requestConversation(id))
		if statusOf(err) != http.StatusNotFound || d.Clocks.Elapsed() >= due {
			return info, err
		}
		if err := d.sleep(confirmAgain); err != nil {
			return gjson.Result{}, err
		}
	}
}

// quiet brings the conversation into a state in which it takes a message.
func (d *driver) quiet() (lost string, err error) {
	switch d.reach.status {
	case execRunning:
		return "", d.endStrayRun()
	case execWaiting:
		d.warn("approval", "what the agent asked for in an earlier run is declined")
		_, err := d.call(requestConfirm(d.id, false, "nobody answered in time"))
		return "", err
	case execError:
		return d.broken()
	}
	return "", nil
}

// endStrayRun ends the run of the server that an earlier run of ours has left.
func (d *driver) endStrayRun() error {
	d.warn("interrupted", "the agent still runs for an earlier run, and is interrupted")
	if _, err := d.call(requestInterrupt(d.id)); err != nil {
		return err
	}
	for due := d.Clocks.Elapsed() + quietLimit; ; {
		info, err := d.call(requestConversation(d.id))
		if err != nil {
			return err
		}
		if info.Get("execution_status").Str != execRunning {
			d.countBefore(info)
			return nil
		}
		if d.Clocks.Elapsed() >= due {
			return session.Failf(wire.CauseUnavailable, "agent-server does not end the run of conversation %s", d.id)
		}
		if err := d.sleep(confirmAgain); err != nil {
			return err
		}
	}
}

// broken tells whether a conversation that is in error can be gone on with: after a
// crash it can, and where the provider was to blame; else every run would fail alike.
func (d *driver) broken() (lost string, err error) {
	page, err := d.call(requestNewest(d.id, "", pageSize))
	if err != nil {
		return "", err
	}
	for _, e := range page.Get("items").Array() {
		if e.Get("kind").Str == "MessageEvent" && e.Get("source").Str == "user" {
			break
		}
		if e.Get("kind").Str != "ConversationErrorEvent" {
			continue
		}
		code := e.Get("code").Str
		switch e.Get("classification.kind").Str {
		case "auth", "quota", "rate_limit", "config", "transient":
			return "", nil
		}
		if code == "MaxIterationsReached" || code == "MaxBudgetReached" {
			return "", nil
		}
		return "the conversation has ended with " + code, nil
	}
	return "", nil
}

// adjust makes an earlier conversation what this run asks for: another model, and the
// key, which no disk has, are no reason for a fresh one.
func (d *driver) adjust() error {
	if _, err := d.call(requestSwitch(d.id, d.cfg.Agent.llm())); err != nil {
		return err
	}
	if d.cfg.Agent.Confirm == "" {
		return nil
	}
	if d.cfg.Agent.Confirm == ConfirmRisky {
		if _, err := d.call(requestAnalyzer(d.id)); err != nil {
			return err
		}
	}
	_, err := d.call(requestPolicy(d.id, d.cfg.Agent.Confirm))
	return err
}
