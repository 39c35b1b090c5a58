package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// script is a tracker whose answers are changed as a test goes on.
type script struct {
	mu     sync.Mutex
	states map[string]string // by id
	limit  *wire.RateLimit
	err    error
	asked  int
}

func (s *script) set(change func(*script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *script) issue(id string) *wire.Issue {
	return &wire.Issue{ID: id, Identifier: id, Title: id, State: s.states[id], Dispatchable: true, Category: category(s.states[id])}
}

func category(state string) string {
	return tracker.Rules{Active: workflow.DefaultActive(), Terminal: workflow.DefaultTerminal()}.Category(state)
}

func (s *script) List(_ context.Context, q tracker.Query, use func(*tracker.Page) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return s.err
	}
	page := &tracker.Page{RateLimit: s.limit}
	for id, state := range s.states {
		if q.All || tracker.Contains(q.States, state) {
			page.Issues = append(page.Issues, s.issue(id))
		}
	}
	return use(page)
}

func (s *script) ByIDs(_ context.Context, ids []string) (*tracker.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := &tracker.Page{}
	for _, id := range ids {
		if _, ok := s.states[id]; ok {
			page.Issues = append(page.Issues, s.issue(id))
		} else {
			page.Gone = append(page.Gone, id)
		}
	}
	return page, s.err
}

func (s *script) ByIdentifiers(context.Context, []string) (*tracker.Page, error) {
	return nil, errors.New("nobody asks for identifiers")
}
func (s *script) Tools() []tracker.Tool { return nil }

// printed is an output that a test looks at while it is written.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *printed) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// take returns what was written since the last call, in short.
func (l *printed) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var short []string
	for line := range strings.Lines(l.buf.String()) {
		rec, err := wire.Decode([]byte(line), "issue")
		if err != nil {
			short = append(short, strings.TrimSpace(line))
			continue
		}
		switch rec := rec.(type) {
		case *wire.Issue:
			short = append(short, rec.ID+" "+rec.State)
		case *wire.Gone:
			short = append(short, rec.ID+" gone")
		}
	}
	l.buf.Reset()
	return strings.Join(short, ", ")
}

type following struct {
	tracker  *script
	out, err *printed
	end      chan error
	stop     context.CancelCauseFunc
}

func startFollowing(t *testing.T, change ...func(*script)) *following {
	f := &following{tracker: &script{states: map[string]string{"1": "Todo", "2": "Done"}}, out: &printed{}, err: &printed{}, end: make(chan error, 1)}
	for _, c := range change {
		c(f.tracker)
	}
	l, err := parseList([]string{"--follow"})
	if err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Stdout: f.out, Stderr: f.err, Now: time.Now}
	o := &opened{tracker: f.tracker, rules: tracker.Rules{Active: workflow.DefaultActive(), Terminal: workflow.DefaultTerminal()}}
	p := &lister{listing: l, opened: o, env: env, out: wire.NewWriter(env.Stdout)}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.stop = cancel
	go func() { f.end <- newFollower(p).follow(ctx) }()
	t.Cleanup(func() { cancel(nil) })
	return f
}

// after lets time pass and wants what was printed until then.
func (f *following) after(t *testing.T, d time.Duration, want string) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
	if got := f.out.take(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestFollowPrintsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t)
		f.after(t, time.Millisecond, "1 Todo")
		f.after(t, 40*time.Second, "")
		f.tracker.set(func(s *script) { s.states["1"], s.states["3"] = "In Progress", "Todo" })
		f.after(t, 30*time.Second, "1 In Progress, 3 Todo")
		f.tracker.set(func(s *script) { s.states["1"] = "Done"; delete(s.states, "3") })
		f.after(t, 30*time.Second, "1 Done, 3 gone")
		f.after(t, time.Hour, "")
		f.tracker.set(func(s *script) { s.states["1"] = "Todo" })
		f.after(t, 30*time.Second, "1 Todo")
		stopped := errors.New("stopped")
		f.stop(stopped)
		if err := <-f.end; !errors.Is(err, stopped) {
			t.Errorf("ended with %v", err)
		}
	})
}

// Case P08: there is no cursor that trouble could move past an issue. Trouble is told once
// and nothing is lost over it; while it lasts the tracker is asked
// less and less often.
func TestFollowGoesOnAfterTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t)
		f.after(t, time.Millisecond, "1 Todo")
		f.tracker.set(func(s *script) { s.err, s.asked = tracker.Errorf(tracker.Unavailable, "it is down"), 0 })
		f.after(t, 2*time.Hour, "")
		f.tracker.set(func(s *script) {
			if s.asked > 30 {
				t.Errorf("asked %d times while it was down", s.asked)
			}
			s.err, s.states["1"] = nil, "In Progress"
		})
		f.after(t, 30*time.Minute, "1 In Progress")
		if told := f.err.take(); told != ": it is down" {
			t.Errorf("told %q", told)
		}
	})
}

// No reading before the time that a limit names.
func TestFollowWaitsForTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t)
		f.after(t, time.Millisecond, "1 Todo")
		f.tracker.set(func(s *script) {
			s.err = &tracker.Error{Category: tracker.RateLimited, Message: "slow down", RetryAt: time.Now().Add(time.Hour)}
		})
		f.after(t, 31*time.Second, "")
		f.tracker.set(func(s *script) { s.err, s.asked = nil, 0 })
		f.after(t, 58*time.Minute, "")
		f.tracker.set(func(s *script) {
			if s.asked > 0 {
				t.Errorf("asked %d times before the limit was over", s.asked)
			}
			s.states["1"] = "In Progress"
		})
		f.after(t, 2*time.Minute, "1 In Progress")
	})
}

func TestFollowEndsWhereItCannotBegin(t *testing.T) {
	for _, c := range []struct {
		category tracker.Category
		ends     bool
	}{{tracker.InvalidConfig, true}, {tracker.Denied, true}, {tracker.Unavailable, false}, {tracker.RateLimited, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := startFollowing(t, func(s *script) { s.err = tracker.Errorf(c.category, "no") })
			<-time.After(time.Millisecond)
			synctest.Wait()
			select {
			case err := <-f.end:
				if !c.ends {
					t.Errorf("%s: ended with %v", c.category, err)
				}
			default:
				if c.ends {
					t.Errorf("%s: goes on", c.category)
				}
			}
		})
	}
}

// Less than a tenth of the quota left: the interval makes the rest of it last.
func TestStretch(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limit := func(remaining int64) *wire.RateLimit {
		return &wire.RateLimit{Limit: wire.Count(1000), Remaining: wire.Count(remaining), ResetAt: wire.At(now.Add(time.Hour))}
	}
	var s spending
	for _, c := range []struct {
		limit *wire.RateLimit
		want  time.Duration
	}{
		{nil, 30 * time.Second},
		{limit(500), 30 * time.Second},
		{limit(100), 30 * time.Second},
		{limit(90), 6*time.Minute + 40*time.Second}, // a look costs 10: 9 are left
		{limit(80), 7*time.Minute + 30*time.Second},
		{limit(0), time.Hour},
		{limit(1000), 30 * time.Second},
		{&wire.RateLimit{Limit: wire.Count(10)}, 30 * time.Second},
	} {
		if got := s.stretch(30*time.Second, c.limit, now); got != c.want {
			t.Errorf("%s: %v, want %v", fmt.Sprint(c.limit), got, c.want)
		}
	}
}
