package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// askGrace is the time from TERM to KILL for a program that Ask gives up, and from KILL
// on.
const askGrace = 2 * time.Second

// Reply is what a program that has ended has left. Its output lies in files without
// names, so that nothing which still holds them can be waited for, and a long answer
// takes no memory.
type Reply struct {
	Exit     Exit
	Out, Err *os.File
}

// Ask runs s to its end with stdin as its standard input, or ends it with ctx, whose
// cause is the error then. An exit status is no error. The standard streams of s are
// not looked at. The caller closes the reply.
func Ask(ctx context.Context, s Spec, stdin []byte) (*Reply, error) {
	var files [3]*os.File
	r, err := ask(ctx, s, stdin, &files)
	if files[0] != nil {
		_ = files[0].Close() // the program has its own copy
	}
	if err != nil {
		closeFiles(files[1], files[2]) // half an answer is none
		return nil, err
	}
	return r, nil
}

func ask(ctx context.Context, s Spec, stdin []byte, files *[3]*os.File) (r *Reply, err error) {
	for i := range files {
		if files[i], err = nameless(); err != nil {
			return nil, err
		}
	}
	if _, err := files[0].Write(stdin); err != nil {
		return nil, fmt.Errorf("write to a scratch file: %w", err)
	}
	if _, err := files[0].Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind a scratch file: %w", err)
	}
	s.Stdin, s.Stdout, s.Stderr = files[0], files[1], files[2]
	child, err := Start(s)
	if err != nil {
		return nil, err
	}
	select {
	case <-child.Done():
		return &Reply{Exit: child.Exit(), Out: files[1], Err: files[2]}, nil
	case <-ctx.Done():
		child.Stop(nil, child.Send(syscall.SIGTERM, askGrace), child.Send(syscall.SIGKILL, askGrace))
		return nil, context.Cause(ctx)
	}
}

// nameless makes a file that vanishes with its last descriptor.
func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "os-ask-*")
	if err != nil {
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		closeFiles(f)
		return nil, fmt.Errorf("make a scratch file: %w", err)
	}
	return f, nil
}

// Close lets the files go.
func (r *Reply) Close() { closeFiles(r.Out, r.Err) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // it has no name and nothing is to be kept
		}
	}
}

// Tail returns the end of a file, at most limit bytes of it, as text that is valid; ""
// if it cannot be read, since it is good for messages only.
func Tail(f *os.File, limit int64) string {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text := make([]byte, min(size, limit))
	n, _ := f.ReadAt(text, size-int64(len(text))) // what can be read is good enough
	return string(bytes.ToValidUTF8(text[:n], []byte("\ufffd")))
}
