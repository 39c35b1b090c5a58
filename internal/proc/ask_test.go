package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestAsk(t *testing.T) {
	r, err := Ask(context.Background(), Spec{Argv: []string{"/bin/sh", "-c", "cat; echo cut >&2; exit 3"}, Env: os.Environ()}, []byte("in"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r.Out)
	if err != nil || string(out) != "in" || r.Exit.Status() != 3 || Tail(r.Err, 3) != "ut\n" {
		t.Errorf("%q, %v, %v, %q", out, err, r.Exit, Tail(r.Err, 3))
	}
}

// What a program leaves behind holds its output, and nobody waits for that.
func TestAskWaitsForNoChild(t *testing.T) {
	r, err := Ask(context.Background(), Spec{Argv: []string{"/bin/sh", "-c", "sleep 60 & echo $!"}, Env: os.Environ()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Exit.Status() != 0 || Tail(r.Out, 100) == "" {
		t.Errorf("%v, %q", r.Exit, Tail(r.Out, 100))
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	end := make(chan error, 1)
	go func() {
		_, err := Ask(ctx, Spec{Argv: []string{"/bin/sh", "-c", "trap '' TERM; touch '" + begun + "'; while :; do sleep 1; done"}, Env: os.Environ()}, nil)
		end <- err
	}()
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
	}
	cancel(enough)
	if err := <-end; !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if _, err := Ask(context.Background(), Spec{Argv: []string{"/no/such/program"}}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
