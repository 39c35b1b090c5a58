package openhands

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// maxLoose is how many marks are kept in a map before they are sorted in.
const maxLoose = 4096

// mark stands for the id of an event. An id itself is a part of its frame, which it would
// keep from being freed. That two of a million ids have the same mark is less likely than
// one in ten million.
type mark uint64

func markOf(id string) mark {
	sum := sha256.Sum256([]byte(id))
	return mark(binary.BigEndian.Uint64(sum[:]))
}

// marks remembers all ids of a run, at 8 bytes each. The zero value remembers none.
type marks struct {
	sorted []mark
	loose  map[mark]struct{} // the newest, which are not in sorted
}

// add reports whether an id is new, and remembers it.
func (k *marks) add(id string) bool {
	m := markOf(id)
	if _, twice := k.loose[m]; twice {
		return false
	}
	if _, twice := slices.BinarySearch(k.sorted, m); twice {
		return false
	}
	if k.loose == nil {
		k.loose = make(map[mark]struct{}, maxLoose)
	}
	if k.loose[m] = struct{}{}; len(k.loose) >= maxLoose {
		k.sortIn()
	}
	return true
}

// sortIn merges the loose marks into the sorted ones, from the end, so that each is moved
// once.
func (k *marks) sortIn() {
	loose := slices.Sorted(maps.Keys(k.loose))
	clear(k.loose)
	old := len(k.sorted)
	k.sorted = append(k.sorted, loose...)
	for to := len(k.sorted) - 1; len(loose) > 0; to-- {
		last := len(loose) - 1
		if old > 0 && k.sorted[old-1] > loose[last] {
			old--
			k.sorted[to] = k.sorted[old]
			continue
		}
		k.sorted[to], loose = loose[last], loose[:last]
	}
}
