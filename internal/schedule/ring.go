package schedule

import (
	"slices"
	"strings"
)

// rings finds the issues that wait for each other, so that none can ever start. It
// returns, by id, the ring that an issue is in or has to wait for.
//
// Issues that wait for none of the others are taken away until nothing changes;
// from each one that is left, the way to the first that it waits for leads into a
// ring. That is linear in issues and relations.
func rings(b *board, open func(string) bool) map[string]string {
	g := newGraph(b, open)
	if len(g.edges) == 0 {
		return nil
	}
	g.peel()
	return g.walk()
}

// graph has an edge from each issue to each other issue of the board that it waits
// for. Issues are numbered by their place in the order.
type graph struct {
	order []*candidate
	edges [][2]int // from, to; by from
	waits []int    // how many edges an issue still has
	gone  []bool   // it can start, or will be able to
}

func newGraph(b *board, open func(string) bool) *graph {
	g := &graph{order: b.order}
	var named map[string]*candidate
	find := func(id, identifier string) *candidate {
		if c := b.byID[id]; c != nil || id != "" {
			return c
		}
		if named == nil {
			named = make(map[string]*candidate, len(b.order))
			for _, c := range b.order {
				named[c.identifier] = c
			}
		}
		return named[identifier]
	}
	for i, c := range b.order {
		if c.code == "" {
			continue // nothing that it waits for is open
		}
		for _, x := range c.issue.BlockedBy {
			g.edge(i, open(string(x.State)), find(string(x.ID), string(x.Identifier)))
		}
		for _, x := range c.issue.Children {
			g.edge(i, open(string(x.State)), find(x.ID, x.Identifier))
		}
	}
	return g
}

func (g *graph) edge(from int, open bool, to *candidate) {
	if open && to != nil {
		g.edges = append(g.edges, [2]int{from, to.place})
	}
}

func (g *graph) peel() {
	n := len(g.order)
	g.waits, g.gone = make([]int, n), make([]bool, n)
	back := slices.Clone(g.edges)
	slices.SortFunc(back, func(a, b [2]int) int { return a[1] - b[1] })
	first := make([]int, n+1) // where the edges to an issue begin in back
	for _, e := range g.edges {
		g.waits[e[0]]++
		first[e[1]+1]++
	}
	var free []int
	for i := range n {
		first[i+1] += first[i]
		if g.waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		g.gone[i] = true
		for _, e := range back[first[i]:first[i+1]] {
			if g.waits[e[0]]--; g.waits[e[0]] == 0 {
				free = append(free, e[0])
			}
		}
	}
}

// walk follows one edge of each issue that is left until it meets its own path,
// which is a new ring, or an issue whose ring is known.
func (g *graph) walk() map[string]string {
	next := map[int]int{}
	for _, e := range g.edges {
		if _, ok := next[e[0]]; !ok && !g.gone[e[0]] && !g.gone[e[1]] {
			next[e[0]] = e[1]
		}
	}
	found := map[string]string{}
	on := map[int]int{} // place in the path, from 1
	for i := range g.order {
		if g.gone[i] {
			continue
		}
		var path []int
		ring, at := found[g.order[i].id], i
		for ring == "" {
			path = append(path, at)
			on[at] = len(path)
			at = next[at]
			if ring = found[g.order[at].id]; ring == "" && on[at] > 0 {
				ring = g.text(path[on[at]-1:])
			}
		}
		for _, j := range path {
			found[g.order[j].id] = ring
		}
	}
	return found
}

// text names a ring, beginning at its first identifier so that it always reads the
// same.
func (g *graph) text(ring []int) string {
	names := make([]string, len(ring))
	for i, j := range ring {
		names[i] = g.order[j].identifier
	}
	first := slices.Index(names, slices.Min(names))
	names = slices.Concat(names[first:], names[:first], names[first:first+1])
	return strings.Join(names, " -> ")
}
