package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"ostoolkit/internal/wire"
)

// lastSeq returns the number of the newest event of the run in the log at path, 0
// where there is none. A supervised script may start one harness after the other: each
// goes on with the numbers of the one before.
func lastSeq(path, runID string) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("number the events: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	lines := wire.NewReader(f, wire.MaxRecord)
	for last := int64(0); ; {
		line, err := lines.Next()
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return 0, fmt.Errorf("number the events: read %q: %w", path, err)
		}
		if seq := seqOf(line.Bytes, runID); seq > 0 {
			last = seq
		}
	}
}

// seqOf returns the number of an event of the run, 0 for any other line.
func seqOf(line []byte, runID string) int64 {
	if !bytes.Contains(line, []byte(`"event"`)) {
		return 0
	}
	var ev struct {
		Type  string `json:"type"`
		RunID string `json:"run_id"`
		Seq   int64  `json:"seq"`
	}
	if err := json.Unmarshal(line, &ev); err != nil || ev.Type != "event" || ev.RunID != runID {
		return 0
	}
	return ev.Seq
}
