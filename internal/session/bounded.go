package session

import (
	"fmt"
	"unicode/utf8"

	"ostoolkit/internal/wire"
)

// maxOutput bounds in bytes what an event tells of a command's output; the whole is the
// agent's business.
const maxOutput = 16 << 10

// Bounded keeps the end of a long output, where its result stands.
func Bounded(output string) wire.Text {
	if len(output) <= maxOutput {
		return wire.Text(output)
	}
	tail := output[len(output)-maxOutput:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return wire.Text(fmt.Sprintf("[%d bytes left out]\n%s", len(output)-len(tail), tail))
}
