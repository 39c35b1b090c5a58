// Package watch tells when it is time to look at a folder again: at once after
// something changed in it, and at least once an interval whatever the system says,
// since a watch on a network mount may succeed and never fire.
//
// It does not tell what changed: whoever gets a hint lists the folder and believes
// that. It is the one user of fsnotify. A Watcher owns one goroutine, from Open to
// Close; its methods are safe for concurrent use, and hints go to one receiver each.
package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	defaultInterval = time.Second
	defaultDegraded = 200 * time.Millisecond
)

// Options are how to watch. The zero value is good.
type Options struct {
	// Warn is told, once, that the system has no watcher to give. nil: nobody is.
	Warn func(format string, args ...any)
	// Interval is the longest time between two hints; 0 means 1 s.
	Interval time.Duration
	// Degraded is how often a folder's mtime is looked at where there is no watcher,
	// and how often a folder that is gone is looked for; 0 means 200 ms.
	Degraded time.Duration
	// Forbid does without a watcher, as if the system had none.
	Forbid bool
}

// Watcher watches some folders.
type Watcher struct {
	hints chan struct{}
	stop  func()
	done  chan struct{}
}

// Open begins to watch the folders. Everything that changes in them after it has
// returned is followed by a hint, and a first hint is there at once. A folder that is missing now is an error matching
// fs.ErrNotExist; one that goes missing later is watched again when it is back.
func Open(dirs []string, o Options) (*Watcher, error) {
	l := &looker{warn: o.Warn, interval: o.Interval, degraded: o.Degraded, hints: make(chan struct{}, 1)}
	if l.warn == nil {
		l.warn = func(string, ...any) {}
	}
	if l.interval <= 0 {
		l.interval = defaultInterval
	}
	if l.degraded <= 0 {
		l.degraded = defaultDegraded
	}
	l.start(o.Forbid)
	for _, dir := range dirs {
		f := &folder{path: filepath.Clean(dir)}
		l.folders = append(l.folders, f)
		if err := l.look(f); err != nil {
			l.release()
			return nil, fmt.Errorf("watch folder: %w", err)
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go l.run(stop, done)
	return &Watcher{hints: l.hints, stop: sync.OnceFunc(func() { close(stop) }), done: done}, nil
}

// C returns the channel of hints. Hints that nobody has taken yet are one. It is
// never closed.
func (w *Watcher) C() <-chan struct{} { return w.hints }

// Close ends the watch and waits for its goroutine. It may be called again.
func (w *Watcher) Close() {
	w.stop()
	<-w.done
}

// errForbidden is why there is no watcher where the options say so.
var errForbidden = errors.New("it is switched off")

// folder is one watched folder.
type folder struct {
	path string
	info fs.FileInfo // of the folder that the watch is on; nil while there is none
}

// looker is what the goroutine of a Watcher owns.
type looker struct {
	folders            []*folder
	warn               func(string, ...any)
	interval, degraded time.Duration
	hints              chan struct{}
	hinted             time.Time // the last hint

	system *fsnotify.Watcher // nil where only the mtimes are looked at
	events <-chan fsnotify.Event
	errs   <-chan error
}

func (l *looker) start(forbid bool) {
	if forbid {
		l.degrade(errForbidden)
		return
	}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		l.degrade(err)
		return
	}
	l.system, l.events, l.errs = system, system.Events, system.Errors
}

// degrade does without the system's watcher from now on.
func (l *looker) degrade(why error) {
	l.release()
	l.warn("no watcher to be had (%v): folders are looked at every %v instead", why, l.degraded)
}

func (l *looker) release() {
	if l.system == nil {
		return
	}
	_ = l.system.Close() // nothing is to be saved
	l.system, l.events, l.errs = nil, nil, nil
}

func (l *looker) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	defer l.release()
	timer := time.NewTimer(l.pace())
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case e := <-l.events:
			l.hint()
			if l.lost(e) {
				l.lookAll()
				timer.Reset(l.pace())
			}
		case <-l.errs:
			// Mostly an overflow: what was lost may be a folder's own removal.
			for _, f := range l.folders {
				f.info = nil
			}
			l.lookAll()
			l.hint()
		case <-timer.C:
			l.lookAll()
			if time.Since(l.hinted) >= l.interval {
				l.hint()
			}
			timer.Reset(l.pace())
		}
	}
}

// hint never waits: a hint that is still there says the same.
func (l *looker) hint() {
	l.hinted = time.Now()
	select {
	case l.hints <- struct{}{}:
	default:
	}
}

// pace returns the time to the next look.
func (l *looker) pace() time.Duration {
	if l.system == nil {
		return min(l.degraded, l.interval)
	}
	for _, f := range l.folders {
		if f.info == nil {
			return min(l.degraded, l.interval)
		}
	}
	return l.interval
}

// lost reports whether an event tells of the end of a watched folder, which is the
// end of its watch too. A folder that replaces it may have the same inode, so that
// only this event tells the two apart.
func (l *looker) lost(e fsnotify.Event) bool {
	if !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename) {
		return false
	}
	for _, f := range l.folders {
		if f.path == e.Name {
			f.info = nil
			return true
		}
	}
	return false
}

func (l *looker) lookAll() {
	for _, f := range l.folders {
		_ = l.look(f) // missing: it is looked for again
	}
}

// look finds out what became of a folder since the last look, puts the watch on it
// where there is none, and gives a hint if the folder is another one or has changed
// unwatched.
func (l *looker) look(f *folder) error {
	info, err := os.Stat(f.path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%q is not a folder", f.path)
	}
	if err != nil {
		if f.info != nil {
			l.hint()
		}
		f.info = nil
		return err
	}
	same := f.info != nil && os.SameFile(f.info, info)
	if same && (l.system != nil || info.ModTime().Equal(f.info.ModTime())) {
		return nil
	}
	f.info = nil
	if l.system != nil {
		if err := l.attach(f.path); err != nil {
			return err
		}
	}
	f.info = info
	l.hint()
	return nil
}

// attach puts the watch on a folder, or fails if that has just gone. A system that
// gives no more watches is not asked again.
func (l *looker) attach(path string) error {
	_ = l.system.Remove(path) // a watch on what was here before, if any
	err := l.system.Add(path)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		l.degrade(err)
	}
	return nil
}
