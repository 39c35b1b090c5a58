package watch

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A system that gives no more watches while some folders are watched already, as when
// a folder that came back is to be watched again.
func TestDegradeLater(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	warnings := 0
	l := &looker{
		warn: func(string, ...any) { warnings++ }, hints: make(chan struct{}, 1),
		interval: time.Hour, degraded: defaultDegraded,
	}
	l.start(false)
	for _, dir := range dirs {
		l.folders = append(l.folders, &folder{path: dir})
	}
	l.lookAll()
	<-l.hints
	if l.system == nil || l.pace() != time.Hour {
		t.Skip("this system has no watcher to lose")
	}
	if err := l.system.Close(); err != nil { // every Add is an error from now on
		t.Fatal(err)
	}
	l.folders[0].info = nil
	l.lookAll()
	<-l.hints
	if l.system != nil || warnings != 1 || l.pace() != defaultDegraded {
		t.Fatalf("%d warnings, a look every %v", warnings, l.pace())
	}
	synctest.Test(t, func(t *testing.T) {
		l.hints = make(chan struct{}, 1)
		stop, done := make(chan struct{}), make(chan struct{})
		go l.run(stop, done)
		for _, dir := range dirs {
			start := time.Now()
			if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			<-l.hints
			if late := time.Since(start); late > defaultDegraded {
				t.Errorf("hint after %v", late)
			}
		}
		close(stop)
		<-done
	})
}
