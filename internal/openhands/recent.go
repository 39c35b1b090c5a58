package openhands

import (
	"crypto/sha256"
	"encoding/binary"
)

// maxRecent is how many ids are remembered at least. What comes twice comes soon: with a
// new socket, or by REST while a socket brings it too.
const maxRecent = 20_000

// mark stands for the id of an event. An id itself is a part of its frame, which it would
// keep from being freed. That two of 100,000 ids have the same mark is less likely than
// one in a thousand million.
type mark uint64

func markOf(id string) mark {
	sum := sha256.Sum256([]byte(id))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

// recent remembers the newest ids, from maxRecent to twice as many, however long a
// conversation is. The zero value remembers none.
type recent struct{ newer, older map[mark]struct{} }

// add reports whether an id is new, and remembers it.
func (r *recent) add(id string) bool {
	m := markOf(id)
	if _, twice := r.newer[m]; twice {
		return false
	}
	if _, twice := r.older[m]; twice {
		return false
	}
	if r.newer == nil || len(r.newer) >= maxRecent {
		r.newer, r.older = make(map[mark]struct{}), r.newer
	}
	r.newer[m] = struct{}{}
	return true
}
