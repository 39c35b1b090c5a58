package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong in a workflow file. It never shows what a
// variable held, only its name.
type Error struct {
	Path    string // as people know the file, "" where defaults stand without one
	Line    int    // from 1; 0 where no line is to blame
	Key     string // "agent.max_turns" or "prompt"; "" where the file as a whole is wrong
	Value   string // as it stands in the file
	Message string // says what is wrong, the value included
}

func (e *Error) Error() string {
	text := place(e.Path, e.Line)
	if e.Key != "" {
		text += e.Key + ": "
	}
	return text + e.Message
}

// Warning is something in a workflow file that has no effect.
type Warning struct {
	Path    string
	Line    int
	Message string
}

func (w Warning) String() string { return place(w.Path, w.Line) + w.Message }

func place(path string, line int) string {
	switch {
	case path == "":
		return ""
	case line == 0:
		return path + ": "
	default:
		return fmt.Sprintf("%s:%d: ", path, line)
	}
}

// Nearest returns the one of known, all in lower case, that name was probably meant to
// be, or "".
func Nearest(name string, known []string) string {
	best, found := max(1, len(name)/3)+1, ""
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(strings.ToLower(name), k); d < best {
			best, found = d, k
		}
	}
	return found
}

// distance is the number of edits that turn a into b: a letter more, less or
// another, or two neighbours swapped.
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// didYouMean is the tail of a message about an unknown name.
func didYouMean(prefix, name string, known []string) string {
	if n := Nearest(name, known); n != "" {
		return fmt.Sprintf(", did you mean %q?", prefix+n)
	}
	return ""
}
