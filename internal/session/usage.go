package session

import "ostoolkit/internal/wire"

// Meter turns the totals that a peer reports for a whole session into this run's
// own share. A peer repeats itself and counts over all runs of a session, so totals
// are taken as they are and never added up.
type Meter struct {
	base    *wire.Usage // what the session had used before this run; nil: not known
	total   *wire.Usage
	carried *wire.Usage // what sessions had used that this one stands in for; nil: none
}

// Fresh says that the session begins with this run.
func (m *Meter) Fresh() { m.base = &zeroUsage }

var zeroUsage = wire.Usage{InputTokens: wire.Count(0), CachedInputTokens: wire.Count(0),
	OutputTokens: wire.Count(0), ReasoningTokens: wire.Count(0), TotalTokens: wire.Count(0)}

// Resumed says what the session had used before this run, nil if that is not known.
func (m *Meter) Resumed(total *wire.Usage) { m.base = complete(total) }

// ResumedAt says the same by the peer's own count, which does not have what is Carried.
func (m *Meter) ResumedAt(peer *wire.Usage) { m.base = plus(m.carried, complete(peer)) }

// Carry says what sessions have used that this one stands in for, nil for none. The
// peer does not count it; the session's totals do.
func (m *Meter) Carry(used *wire.Usage) { m.carried = used }

// Carried returns what was said to Carry, and what Renew has added.
func (m *Meter) Carried() *wire.Usage { return m.carried }

// Renew says that the run goes on in another session, whose totals begin at 0.
func (m *Meter) Renew() { m.carried = m.Total() }

// Update takes the session's totals and, if the peer gives it, what the last request
// alone has used. It reports whether anything changed. Totals that are lower than those
// known were on their way for longer.
func (m *Meter) Update(total, last *wire.Usage) bool {
	total = plus(m.carried, complete(total))
	if m.base == nil {
		m.base = minus(total, complete(last))
	}
	if m.total != nil && (equal(m.total, total) || less(total, m.total)) {
		return false
	}
	m.total = total
	return true
}

// Total returns the session's totals, nil if the peer has said nothing yet.
func (m *Meter) Total() *wire.Usage {
	if m.total == nil {
		return m.base
	}
	return m.total
}

// Own returns this run's share, nil if it is not known.
func (m *Meter) Own() *wire.Usage {
	if m.total == nil {
		return nil
	}
	return minus(m.total, m.base)
}

// complete derives a total that the peer left out. Cached input is part of the
// input, reasoning part of the output.
func complete(u *wire.Usage) *wire.Usage {
	if u == nil || u.TotalTokens != nil || u.InputTokens == nil || u.OutputTokens == nil {
		return u
	}
	c := *u
	c.TotalTokens = wire.Count(*u.InputTokens + *u.OutputTokens)
	return &c
}

func minus(a, b *wire.Usage) *wire.Usage {
	if a == nil || b == nil {
		return nil
	}
	sub := func(x, y *int64) *int64 {
		if x == nil || y == nil {
			return nil
		}
		return wire.Count(max(0, *x-*y))
	}
	return &wire.Usage{
		InputTokens:       sub(a.InputTokens, b.InputTokens),
		CachedInputTokens: sub(a.CachedInputTokens, b.CachedInputTokens),
		OutputTokens:      sub(a.OutputTokens, b.OutputTokens),
		ReasoningTokens:   sub(a.ReasoningTokens, b.ReasoningTokens),
		TotalTokens:       sub(a.TotalTokens, b.TotalTokens),
	}
}

// plus adds b to a. Of nothing, or of what is not known, there is nothing to add.
func plus(a, b *wire.Usage) *wire.Usage {
	if a == nil || b == nil {
		return b
	}
	add := func(x, y *int64) *int64 {
		if x == nil || y == nil {
			return y
		}
		return wire.Count(*x + *y)
	}
	return &wire.Usage{
		InputTokens:       add(a.InputTokens, b.InputTokens),
		CachedInputTokens: add(a.CachedInputTokens, b.CachedInputTokens),
		OutputTokens:      add(a.OutputTokens, b.OutputTokens),
		ReasoningTokens:   add(a.ReasoningTokens, b.ReasoningTokens),
		TotalTokens:       add(a.TotalTokens, b.TotalTokens),
	}
}

func less(a, b *wire.Usage) bool {
	return a.TotalTokens != nil && b.TotalTokens != nil && *a.TotalTokens < *b.TotalTokens
}

func equal(a, b *wire.Usage) bool {
	same := func(x, y *int64) bool {
		return x == nil && y == nil || x != nil && y != nil && *x == *y
	}
	return a != nil && b != nil && same(a.InputTokens, b.InputTokens) && same(a.CachedInputTokens, b.CachedInputTokens) &&
		same(a.OutputTokens, b.OutputTokens) && same(a.ReasoningTokens, b.ReasoningTokens) && same(a.TotalTokens, b.TotalTokens)
}
