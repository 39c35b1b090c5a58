package cli_test

import (
	"io"
	"os"
	"testing"

	"ostoolkit/internal/cli"
)

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if cli.ReaderGone(w) {
		t.Error("a pipe with a reader has none")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !cli.ReaderGone(w) {
		t.Error("a pipe without a reader has one")
	}
	if cli.ReaderGone(io.Discard) {
		t.Error("what is no pipe has lost its reader")
	}
}
