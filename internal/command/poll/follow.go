package poll

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/folder"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

const (
	// maxInterval is the longest time between two looks, whatever goes wrong.
	maxInterval = 15 * time.Minute
	// readerInterval is how often a reader that went away is noticed.
	readerInterval = time.Second
)

// follower prints a list, and then what changes in it. It looks at the whole list each
// time: there is no cursor that could move past an issue, and what was printed is
// remembered only once it is written.
type follower struct {
	*lister
	known map[string]uint64 // by id: a hash of the record that was printed
	spent spending
	waits *backoff.ExponentialBackOff
	told  string                   // the trouble that was told last; "" if there is none
	odd   map[tracker.Problem]bool // entries that the last look could not read to the letter
	good  bool                     // there was a whole list
}

func newFollower(p *lister) *follower {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = p.interval, max(p.interval, maxInterval)
	return &follower{lister: p, known: map[string]uint64{}, waits: waits}
}

// follow goes on until ctx ends, or until nobody reads what it prints.
func (f *follower) follow(ctx context.Context) error {
	hints, unwatch := f.hints()
	defer unwatch()
	reader := time.NewTicker(readerInterval)
	defer reader.Stop()
	for {
		wait, err := f.pass(ctx)
		if err != nil {
			return err
		}
		next := time.NewTimer(wait)
		for looking := true; looking; {
			select {
			case <-ctx.Done():
				next.Stop()
				return context.Cause(ctx)
			case <-next.C:
				looking = false
			case <-hints:
				looking = f.told != "" // a tracker in trouble is left alone
			case <-reader.C:
				if cli.ReaderGone(f.env.Stdout) {
					next.Stop()
					return nil
				}
			}
		}
		next.Stop()
	}
}

// hints tells of changes in a folder of cards, at once.
func (f *follower) hints() (<-chan struct{}, func()) {
	board, ok := f.tracker.(*folder.Board)
	if !ok {
		return nil, func() {}
	}
	w, err := watch.Open([]string{board.Dir()}, watch.Options{Warn: f.env.Warnf, Interval: f.interval})
	if err != nil {
		return nil, func() {} // the first look says what is wrong, or the interval does
	}
	return w.C(), w.Close
}

// pass looks once and returns how long to wait until the next look. What is wrong from
// the start ends it; later it is told once, and tried again.
func (f *follower) pass(ctx context.Context) (time.Duration, error) {
	limited, cancel := f.source.limit(ctx)
	defer cancel()
	page, err := tracker.Collect(limited, f.tracker, f.query())
	if err == nil {
		err = f.printChanges(limited, page)
	}
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err == nil:
		f.good, f.told = true, ""
		f.waits.Reset()
		return f.pace(page.RateLimit), nil
	case !trackerTrouble(err), !f.good && lasting(err):
		return 0, err
	}
	if text := err.Error(); text != f.told {
		f.told = text
		f.env.Errorf("%v", withStatus(err))
	}
	wait := f.waits.NextBackOff()
	var t *tracker.Error
	if errors.As(err, &t) && !t.RetryAt.IsZero() {
		wait = max(wait, t.RetryAt.Sub(f.env.Now()))
	}
	return wait, nil
}

// trackerTrouble reports whether an error is the tracker's, not that of our output.
func trackerTrouble(err error) bool {
	var t *tracker.Error
	var late *cli.ExitError // of the limit on a question
	return errors.As(err, &t) || errors.As(err, &late)
}

// lasting reports whether it makes no sense to try again.
func lasting(err error) bool {
	var t *tracker.Error
	if !errors.As(err, &t) {
		return false
	}
	switch t.Category {
	case tracker.InvalidConfig, tracker.UnsupportedKind, tracker.MissingSecret, tracker.Denied,
		tracker.Forbidden, tracker.NotFound, tracker.TooComplex:
		return true
	}
	return false
}

// printChanges prints what the last look did not show as it is now.
func (f *follower) printChanges(ctx context.Context, page *tracker.Page) error {
	f.tellOdd(page)
	tracker.Sort(page.Issues)
	shown := map[string]bool{}
	for _, issue := range page.Issues {
		if !f.selected(issue) {
			continue
		}
		shown[issue.ID] = true
		if err := f.printChanged(issue); err != nil {
			return err
		}
	}
	var left []string
	for id := range f.known {
		if !shown[id] {
			left = append(left, id)
		}
	}
	return f.printLeft(ctx, left)
}

// tellOdd tells of entries that could not be read to the letter, each once for as long as
// it stays like that.
func (f *follower) tellOdd(page *tracker.Page) {
	odd := map[tracker.Problem]bool{}
	for _, p := range slices.Concat(page.Warnings, page.Problems) {
		if odd[p] = true; !f.odd[p] {
			f.env.Warnf("%v", p)
		}
	}
	f.odd = odd
}

func (f *follower) printChanged(issue *wire.Issue) error {
	line, err := wire.Encode(issue)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write(line) // a hash takes everything
	if sum := h.Sum64(); sum != f.known[issue.ID] {
		if err := f.out.Write(issue); err != nil {
			return err
		}
		f.known[issue.ID] = sum
	}
	return nil
}

// printLeft tells what became of issues that are not in the list any more: the record
// as it is now, once, or that it is gone.
func (f *follower) printLeft(ctx context.Context, ids []string) error {
	page, err := f.tracker.ByIDs(ctx, ids)
	if err != nil {
		return err
	}
	for _, issue := range page.Issues {
		if err := f.printChanged(issue); err != nil {
			return err
		}
		if !f.selected(issue) {
			delete(f.known, issue.ID)
		}
	}
	for _, id := range page.Gone {
		if err := f.out.Write(&wire.Gone{ID: id}); err != nil {
			return err
		}
		delete(f.known, id)
	}
	return nil
}

// pace is the time to the next look: the interval, or more where the tracker's quota
// would not last.
func (f *follower) pace(limit *wire.RateLimit) time.Duration {
	wait := f.spent.stretch(f.interval, limit, f.env.Now())
	if slow := wait > f.interval; slow != f.spent.slow {
		f.spent.slow = slow
		if slow {
			f.env.Warnf("%d requests are left until %s: looking every %v from now on",
				*limit.Remaining, limit.ResetAt.UTC().Format(time.RFC3339), wait.Round(time.Second))
		}
	}
	return wait
}

// spending is what is known of the tracker's quota.
type spending struct {
	last *wire.RateLimit
	slow bool
}

// stretch returns interval, or, when less than a tenth of the quota is left, the time
// that makes the rest of it last: what one look costs is what the last one did.
func (s *spending) stretch(interval time.Duration, limit *wire.RateLimit, now time.Time) time.Duration {
	last := s.last
	s.last = limit
	if limit == nil || limit.Limit == nil || limit.Remaining == nil || limit.ResetAt.IsZero() || *limit.Remaining*10 >= *limit.Limit {
		return interval
	}
	cost := int64(1)
	if last != nil && last.Remaining != nil {
		cost = max(cost, *last.Remaining-*limit.Remaining)
	}
	looks := max(1, *limit.Remaining/cost)
	return min(max(interval, limit.ResetAt.Sub(now)/time.Duration(looks)), max(interval, limit.ResetAt.Sub(now)))
}
