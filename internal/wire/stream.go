package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Problems of a line that the reader itself finds.
var (
	ErrTooLong = errors.New("line is too long")     // skipped up to its LF
	ErrTorn    = errors.New("last line has no end") // the writer died in the middle of it
)

// Line is one line of a stream, without its LF or CRLF.
type Line struct {
	Number int    // from 1
	Bytes  []byte // valid until the next call of Next; nil with ErrTooLong
	Err    error  // ErrTooLong or ErrTorn; a torn line still has its bytes
}

// Reader splits a stream into lines at LF, and at nothing else, with a bound on
// their length. Blank lines are passed over.
type Reader struct {
	r     *bufio.Reader
	limit int
	n     int
	buf   []byte
}

// NewReader returns a Reader whose lines have at most limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next returns the next line that is not blank. At the end of the stream it returns
// io.EOF; any other error is the stream's own.
func (r *Reader) Next() (Line, error) {
	for {
		line, err := r.next()
		if err != nil || line.Err != nil || len(line.Bytes) > 0 {
			return line, err
		}
	}
}

func (r *Reader) next() (Line, error) {
	r.buf = r.buf[:0]
	tooLong := false
	for {
		part, err := r.r.ReadSlice('\n')
		if tooLong = tooLong || len(r.buf)+len(part) > r.limit+1; !tooLong {
			r.buf = append(r.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			return r.line(tooLong, nil), nil
		case err == io.EOF && (len(r.buf) > 0 || tooLong):
			return r.line(tooLong, ErrTorn), nil
		default:
			return Line{}, err
		}
	}
}

func (r *Reader) line(tooLong bool, problem error) Line {
	r.n++
	if tooLong {
		return Line{Number: r.n, Err: ErrTooLong}
	}
	b := r.buf
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' && problem == nil {
		b = b[:n-1]
	}
	return Line{Number: r.n, Bytes: b, Err: problem}
}

// Input is one decoded line of standard input.
type Input struct {
	Number int
	Record Record
	Err    error // why there is no Record
}

// Records reads r in a goroutine of its own and sends what it decodes. The channel is
// closed at the end of the stream and as soon as ctx ends, also while a read is under
// way that never returns; the reading goroutine ends with that read. A read error is
// the last Input.
//
// A torn last line counts if it is a whole record: echo -n is no fault.
func Records(ctx context.Context, r io.Reader, implied string) <-chan Input {
	read, out := make(chan Input), make(chan Input)
	go func() {
		defer close(read)
		readRecords(r, implied, func(in Input) bool { return send(ctx, read, in) })
	}()
	go func() {
		defer close(out)
		for {
			select {
			case in, ok := <-read:
				if !ok || !send(ctx, out, in) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// send reports whether somebody took in before ctx ended.
func send(ctx context.Context, to chan<- Input, in Input) bool {
	select {
	case to <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

func readRecords(r io.Reader, implied string, send func(Input) bool) {
	lines := NewReader(r, MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			send(Input{Err: fmt.Errorf("read standard input: %w", err)})
			return
		}
		if !send(decode(line, implied)) {
			return
		}
	}
}

func decode(line Line, implied string) Input {
	in := Input{Number: line.Number}
	if line.Err != nil && line.Bytes == nil {
		in.Err = line.Err
		return in
	}
	if in.Record, in.Err = Decode(line.Bytes, implied); in.Err != nil && line.Err != nil {
		in.Err = line.Err
	}
	return in
}

// Writer writes whole lines to one stream. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one record as one line with one call of the stream's Write.
func (w *Writer) Write(rec Record) error {
	line, err := Marshal(rec)
	if err != nil {
		return err
	}
	return w.WriteLine(line)
}

// WriteLine writes a line that is encoded already, and adds its LF.
func (w *Writer) WriteLine(line []byte) error {
	b := make([]byte, 0, len(line)+1)
	b = append(append(b, line...), '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(b)
	return err
}
