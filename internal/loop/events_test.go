package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// logOf makes a state root whose log and what was put aside hold these lines.
func logOf(t *testing.T, aside, log string) (state.Root, string) {
	t.Helper()
	c := Config{Root: state.Root(t.TempDir())}
	if err := os.MkdirAll(c.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{c.path(LogFile) + asideSuffix: aside, c.path(LogFile): log} {
		if text != "" {
			add(t, path, text)
		}
	}
	return c.Root, c.path(LogFile)
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rotate puts the log aside as its writer does, and begins it anew.
func rotate(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(path, path+asideSuffix); err != nil {
		t.Fatal(err)
	}
	add(t, path, text)
}

// entry is a line of second n about an issue.
func entry(n int, issue string) string {
	return fmt.Sprintf(`{"v":1,"type":"loop","time":"2026-11-30T12:00:%02d.000Z","event":"e%d","identifier":%q}`+"\n", n, n, issue)
}

// names returns the events of lines.
func names(lines []string) string {
	var all []string
	for _, l := range lines {
		rec, err := wire.Decode([]byte(l), "")
		if err != nil {
			return err.Error()
		}
		all = append(all, rec.(*wire.Loop).Event)
	}
	return strings.Join(all, " ")
}

func TestEvents(t *testing.T) {
	root, _ := logOf(t, entry(1, "A-1")+"{half\n"+entry(2, "A-2"), entry(3, "A-1")+"\n"+entry(4, "")+`{"time":"`)
	for _, tt := range []struct {
		o    EventsOptions
		want string
	}{
		{EventsOptions{}, "e1 e2 e3 e4"},
		{EventsOptions{Issues: []string{"a-1"}}, "e1 e3"},
		{EventsOptions{Issues: []string{"A-1", "A-2"}}, "e1 e2 e3"},
		{EventsOptions{Since: noon.Add(2 * time.Second)}, "e2 e3 e4"},
		{EventsOptions{Since: noon.Add(time.Hour)}, ""},
	} {
		var lines []string
		damaged, err := Events(t.Context(), root, tt.o, func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		})
		if err != nil || damaged != 2 || names(lines) != tt.want {
			t.Errorf("%+v: %q, %d damaged, %v; want %q", tt.o, names(lines), damaged, err, tt.want)
		}
	}
	full := errors.New("full")
	if _, err := Events(t.Context(), root, EventsOptions{}, func([]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("error of each: %v", err)
	}
	if _, err := Events(t.Context(), state.Root(t.TempDir()), EventsOptions{}, nil); err != nil {
		t.Errorf("no log: %v", err)
	}
}

// followed reads a log that is followed. Each time that there is nothing more, the
// next step changes something; the last one ends the reading.
func followed(t *testing.T, root state.Root, steps ...func()) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	more := make(chan struct{}, 1)
	var lines []string
	_, err := Events(ctx, root, EventsOptions{More: more, Idle: func() error {
		if len(steps) == 0 {
			cancel()
			return nil
		}
		steps[0]()
		steps = steps[1:]
		more <- struct{}{}
		return nil
	}}, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return names(lines)
}

func TestEventsFollow(t *testing.T) {
	root, path := logOf(t, "", "")
	got := followed(t, root,
		func() { add(t, path, entry(1, "")) },
		func() { add(t, path, entry(2, "")[:20]) }, // half a line waits for its end
		func() { add(t, path, entry(2, "")[20:]) },
		func() { add(t, path, entry(3, "")); rotate(t, path, entry(4, "")) },
		func() { // gone for a moment, and twice put aside meanwhile
			rotate(t, path, entry(5, ""))
			rotate(t, path, entry(6, ""))
		},
		func() {}, // a hint for nothing
		func() { add(t, path, entry(7, "")) },
		func() { rotate(t, path, "") },
		func() { add(t, path, entry(8, "")) },
	)
	if want := "e1 e2 e3 e4 e5 e6 e7 e8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The reader of stdout may have gone while nothing happens.
func TestEventsIdleEnds(t *testing.T) {
	root, _ := logOf(t, "", entry(1, ""))
	gone := errors.New("gone")
	o := EventsOptions{More: make(chan struct{}), Idle: func() error { return gone }}
	if _, err := Events(t.Context(), root, o, func([]byte) error { return nil }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}
