package openhands

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestRecentForgetsTheOldestOnly(t *testing.T) {
	var r recent
	const n = 3 * maxRecent
	for i := range n {
		if !r.add(fmt.Sprint(i)) {
			t.Fatalf("%d is taken for one that was there", i)
		}
		if i >= maxRecent && r.add(fmt.Sprint(i-maxRecent)) {
			t.Fatalf("%d is not known after %d more", i-maxRecent, maxRecent)
		}
	}
	if held := len(r.newer) + len(r.older); held > 2*maxRecent {
		t.Errorf("%d ids are held, want at most %d", held, 2*maxRecent)
	}
	if !r.add("0") {
		t.Errorf("the first of %d ids is still known", n)
	}
}

// An id that is cut out of a frame must not keep the frame.
func TestRecentKeepsNoFrame(t *testing.T) {
	const n, size = 100, 1 << 20
	var r recent
	before := heap()
	for i := range n {
		frame := fmt.Sprintf("%08d", i) + strings.Repeat("x", size)
		r.add(frame[:8])
	}
	if grown := heap() - before; grown > n*size/10 {
		t.Errorf("the heap has grown by %d bytes over %d frames of %d", grown, n, size)
	}
	runtime.KeepAlive(&r)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
