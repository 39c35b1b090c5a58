package schedule

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/wire"
)

// board is what the tracker shows: every active issue, claimed or not.
type board struct {
	byID  map[string]*candidate
	shown int // counts the polls, to tell what the last one showed

	stale   bool              // the words for ended states or the labels changed
	changed bool              // what follows is to be made again
	order   []*candidate      // sorted, but for what came since
	rings   map[string]string // by issue id: the ring that it is in, or behind
}

// candidate is one issue of the board.
type candidate struct {
	id, identifier string
	issue          *wire.Issue
	// code and why say what keeps the issue itself from starting, "" for nothing. They
	// are made once a reading, not at each dispatch.
	code  Code
	why   string
	claim *claim    // nil if there is none
	read  time.Time // when the tracker was asked for it
	shown int       // the last poll that showed it
	off   bool      // not on the board any more
	place int       // in the order
	rank  int64     // 1 to 4, and 5 for every other priority
	age   int64     // created_at in Unix milliseconds
	// silent is set where a reading by id told nothing of it. It waits for the next
	// poll then, or it would be asked for without end.
	silent bool
	told   string // the reason that was last printed for not starting it
}

// fresh is how young a reading must be for a start.
const fresh = 2 * time.Second

func newBoard() board { return board{byID: map[string]*candidate{}} }

// fresh is judged by the wall clock, which also runs while the machine sleeps; if
// it was set back, nothing is fresh.
func (c *candidate) fresh(now time.Time) bool {
	age := now.Round(0).Sub(c.read.Round(0))
	return age >= 0 && age < fresh
}

// put shows issue on the board if it is active, and takes it off if not: it returns
// nil then. changed reports whether what keeps it from starting is to be found out
// anew; most polls bring nothing new.
func (b *board) put(issue *wire.Issue, read time.Time) (c *candidate, changed bool) {
	if issue.Category != wire.CategoryActive {
		b.remove(issue.ID)
		return nil, false
	}
	c = b.byID[issue.ID]
	if c == nil {
		c = &candidate{}
		b.byID[issue.ID] = c
		b.order = append(b.order, c)
	}
	moved := c.moved(issue)
	b.changed = b.changed || moved
	changed = moved || !c.sameLeave(issue)
	c.id, c.identifier, c.issue = issue.ID, issue.Identifier, issue
	c.read, c.shown, c.silent = read, b.shown, false
	c.rank, c.age = rank(issue.Priority), age(issue.CreatedAt)
	return c, changed
}

// moved reports whether issue has another place in the order, or waits for others,
// than what was read before it.
func (c *candidate) moved(issue *wire.Issue) bool {
	old := c.issue
	return old == nil || c.identifier != issue.Identifier ||
		c.rank != rank(issue.Priority) || c.age != age(issue.CreatedAt) ||
		!slices.Equal(old.BlockedBy, issue.BlockedBy) || !slices.Equal(old.Children, issue.Children)
}

// sameLeave reports whether the tracker gives leave to start issue as it did before.
func (c *candidate) sameLeave(issue *wire.Issue) bool {
	old := c.issue
	return old.Dispatchable == issue.Dispatchable && old.Archived == issue.Archived &&
		slices.Equal(old.Labels, issue.Labels)
}

func (b *board) remove(id string) {
	if c := b.byID[id]; c != nil {
		delete(b.byID, id)
		c.off, b.changed = true, true
	}
}

// sweep takes off what the last poll did not show, if leaves agrees.
func (b *board) sweep(leaves func(id string) bool) {
	for id, c := range b.byID {
		if c.shown != b.shown && leaves(id) {
			b.remove(id)
		}
	}
}

// refresh makes order and rings anew if they have to be. The order is usually right
// already, which makes sorting it cheap.
func (b *board) refresh(open func(string) bool) {
	if !b.changed {
		return
	}
	b.changed = false
	b.order = slices.DeleteFunc(b.order, func(c *candidate) bool { return c.off })
	slices.SortFunc(b.order, before)
	for i, c := range b.order {
		c.place = i
	}
	b.rings = rings(b, open)
}

// before is the order of dispatch: priority, then age, then identifier.
func before(a, b *candidate) int {
	if c := cmp.Compare(a.rank, b.rank); c != 0 {
		return c
	}
	if c := cmp.Compare(a.age, b.age); c != 0 {
		return c
	}
	if c := strings.Compare(a.identifier, b.identifier); c != 0 {
		return c
	}
	return strings.Compare(a.id, b.id)
}

// rank sorts 1 to 4, and every other number behind them.
func rank(priority *int64) int64 {
	const last = 5
	if priority == nil || *priority < 1 || *priority >= last {
		return last
	}
	return *priority
}

// age sorts what was created first before the rest, and what has no date last.
func age(created wire.Time) int64 {
	if created.IsZero() {
		return math.MaxInt64
	}
	return created.UnixMilli()
}
