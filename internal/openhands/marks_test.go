package openhands

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Whatever comes again, however late, is known.
func TestMarksForgetNothing(t *testing.T) {
	var k marks
	const n = 5*maxLoose + 7
	for i := range n {
		if !k.add(fmt.Sprint(i)) {
			t.Fatalf("%d is taken for one that was there", i)
		}
	}
	for i := range n {
		if k.add(fmt.Sprint(i)) {
			t.Fatalf("%d is not known any more", i)
		}
	}
	if !slices.IsSorted(k.sorted) || len(k.sorted)+len(k.loose) != n {
		t.Errorf("%d marks are sorted, %d loose", len(k.sorted), len(k.loose))
	}
}

// An id that is cut out of a frame must not keep the frame.
func TestMarksKeepNoFrame(t *testing.T) {
	const n, size = 100, 1 << 20
	var k marks
	before := heap()
	for i := range n {
		frame := fmt.Sprintf("%08d", i) + strings.Repeat("x", size)
		k.add(frame[:8])
	}
	if grown := heap() - before; grown > n*size/10 {
		t.Errorf("the heap has grown by %d bytes over %d frames of %d", grown, n, size)
	}
	runtime.KeepAlive(&k)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
