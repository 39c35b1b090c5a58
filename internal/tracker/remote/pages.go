package remote

import (
	"context"
	"sync"

	"ostoolkit/internal/tracker"
)

// maxPages ends a walk that finds no end by itself.
const maxPages = 2000

// Pages guards one walk through the pages of a list, so that a half list is never
// taken for a whole one. The zero value, with What, is the start of a walk.
type Pages struct {
	What string // that is walked through: "issues"
	Max  int    // pages; 0: 2000

	read    int
	cursors map[string]bool
	ids     map[string]bool
}

// Next is called after each page. more is what the service says about there being
// another, nil where it does not say; cursor is where that one is. Its errors are
// *tracker.Error of the category BadPaging.
func (p *Pages) Next(more *bool, cursor string) (again bool, err error) {
	p.read++
	switch limit := p.limit(); {
	case more == nil:
		return false, tracker.Errorf(tracker.BadPaging, "%s: page %d does not say whether there is another", p.What, p.read)
	case !*more:
		return false, nil
	case cursor == "":
		return false, tracker.Errorf(tracker.BadPaging, "%s: page %d has another behind it, but does not say where", p.What, p.read)
	case p.cursors[cursor]:
		return false, tracker.Errorf(tracker.BadPaging, "%s: page %d leads back to one that was read before", p.What, p.read)
	case p.read >= limit:
		return false, tracker.Errorf(tracker.BadPaging, "%s: there is no end after %d pages", p.What, limit)
	}
	if p.cursors == nil {
		p.cursors = map[string]bool{}
	}
	p.cursors[cursor] = true
	return true, nil
}

func (p *Pages) limit() int {
	if p.Max > 0 {
		return p.Max
	}
	return maxPages
}

// First tells whether this id comes for the first time in this walk.
func (p *Pages) First(id string) bool {
	if p.ids[id] {
		return false
	}
	if p.ids == nil {
		p.ids = map[string]bool{}
	}
	p.ids[id] = true
	return true
}

// Each calls do for 0 to n-1, at most atOnce of them at a time, and waits for all. The
// first error cancels the others and is returned.
func Each(ctx context.Context, n, atOnce int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := do(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
