package loop

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

const (
	// lookInterval is how often a run's log is looked at. A watch a run would be more
	// than a user may have of them.
	lookInterval = 100 * time.Millisecond
	// progressInterval thins out what comes often and says the same.
	progressInterval = 200 * time.Millisecond
)

// follow tells what the run does, from its log's start until over is closed and the
// log is read to its end.
func (w *worker) follow(ctx context.Context, over <-chan struct{}) {
	f := follower{w: w}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	defer f.caughtUp()
	log := w.awaitLog(ctx, look.C, over, f.caughtUp)
	if log == nil {
		return
	}
	defer func() { _ = log.Close() }() // read only
	f.tell(schedule.Launched, nil)
	if w.quiet {
		f.tell(schedule.Opened, nil)
	}
	lines := wire.NewReader(&tail{ctx: ctx, f: log, look: look.C, over: over, idle: f.caughtUp}, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF || errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			w.d.warnAbout("follow "+w.identifier, err)
			return
		}
		if line.Err == nil {
			f.line(line.Bytes)
		}
	}
}

// awaitLog opens the log once it is there, which is when the harness begins. It is nil
// where the run ends before.
func (w *worker) awaitLog(ctx context.Context, look <-chan time.Time, over <-chan struct{}, idle func()) *os.File {
	for last := false; ; {
		f, err := os.Open(w.dir.Run(w.runID).Events())
		if err == nil {
			return f
		}
		if idle(); last {
			return nil
		}
		select {
		case <-look:
		case <-over:
			last = true
		case <-ctx.Done():
			return nil
		}
	}
}

// tail reads a file that grows, to its end after over is closed.
type tail struct {
	ctx  context.Context
	f    *os.File
	look <-chan time.Time
	over <-chan struct{}
	idle func() // called at each end of what is there
	last bool
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		n, err := t.f.Read(p)
		if n > 0 || err != io.EOF {
			return n, err
		}
		if t.idle(); t.last {
			return 0, io.EOF
		}
		select {
		case <-t.look:
		case <-t.over:
			t.last = true
		case <-t.ctx.Done():
			return 0, t.ctx.Err()
		}
	}
}

// follower turns lines into facts.
type follower struct {
	w      *worker
	seq    int64
	last   schedule.EventKind
	at     time.Time // of the last progress that was told
	caught bool
}

// caughtUp tells, once, that what was in the log at first has been told.
func (f *follower) caughtUp() {
	if !f.caught {
		f.caught = true
		f.w.d.send(note{caught: f.w})
	}
}

// event is what is read of a line.
type event struct {
	Type  string `json:"type"`
	Event string `json:"event"`
	RunID string `json:"run_id"`
	Seq   int64  `json:"seq"`
	Usage *struct {
		TotalTokens *int64 `json:"total_tokens"`
	} `json:"usage"`
}

func (f *follower) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Type != "event" || e.RunID != f.w.runID {
		if f.w.quiet { // whatever a script prints shows that it goes on
			f.happened(schedule.Progress, nil)
		}
		return
	}
	if e.Seq > 0 {
		if e.Seq <= f.seq {
			return
		}
		f.seq = e.Seq
	}
	var tokens *int64
	if e.Event == wire.EventUsage && e.Usage != nil {
		tokens = e.Usage.TotalTokens
	}
	f.happened(kindOf(e.Event), tokens)
}

// happened tells what counts. Progress that follows progress closely does not.
func (f *follower) happened(kind schedule.EventKind, tokens *int64) {
	if kind == schedule.Progress {
		now := f.w.d.Now()
		if f.last == kind && now.Sub(f.at) < progressInterval {
			return
		}
		f.at = now
	}
	f.last = kind
	if kind != schedule.Chatter || tokens != nil {
		f.tell(kind, tokens)
	}
}

func (f *follower) tell(kind schedule.EventKind, tokens *int64) {
	f.w.d.fact(schedule.RunEvent{IssueID: f.w.issueID, RunID: f.w.runID, Kind: kind, Tokens: tokens})
}

// kindOf sorts events. What is not known is no progress.
func kindOf(name string) schedule.EventKind {
	switch name {
	case wire.EventSessionStarted, wire.EventSessionResumed:
		return schedule.Opened
	case "approval.requested", "input.requested":
		return schedule.Asking
	case "approval.resolved", "input.resolved":
		return schedule.Answered
	case "message", "reasoning", "plan", "diff", "file.changed", "message.delta":
		return schedule.Progress
	}
	family, _, _ := strings.Cut(name, ".")
	if family == "turn" || family == "command" || family == "tool" {
		return schedule.Progress
	}
	return schedule.Chatter
}
