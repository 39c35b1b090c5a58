package spawn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"ostoolkit/internal/state"
)

// Hold is a session's word that a conversation of the server runs for it. The server has
// others to serve and does not end with a session that is killed: where a Hold is let go
// in any way but Release, its keeper interrupts the conversation.
type Hold struct {
	path  string
	share *state.Share
}

const holdSuffix = ".lock"

func holdFile(dir, id string) string { return filepath.Join(dir, "running", id+holdSuffix) }

// Take takes the hold on the conversation with that id, of the server whose Config.Dir
// is dir. It waits while the keeper interrupts it for a session before.
func Take(ctx context.Context, dir, id string) (*Hold, error) {
	h := &Hold{path: holdFile(dir, id)}
	err := state.MakeDir(filepath.Dir(h.path))
	if err == nil {
		err = patiently(ctx, func() (err error) {
			h.share, err = state.AcquireShare(ctx, h.path)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("hold conversation %s: %w", id, err)
	}
	return h, nil
}

// Release lets the hold go. over says that nothing of the conversation runs any more;
// else the keeper sees to that.
func (h *Hold) Release(over bool) error {
	var err error
	if last, lockErr := h.share.Last(); over && last {
		err = os.Remove(h.path)
	} else {
		err = lockErr
	}
	return errors.Join(err, h.share.Release())
}

// interruptAbandoned interrupts the conversations that nobody holds any more. What does
// not work is tried again at the next look.
func (k *Keeping) interruptAbandoned(ctx context.Context, client *http.Client, url, key string) {
	files, _ := filepath.Glob(holdFile(k.Dir, "*")) // the pattern is good
	for _, file := range files {
		lock, err := state.TryAcquire(file)
		if err != nil {
			continue // its session lives
		}
		id := strings.TrimSuffix(filepath.Base(file), holdSuffix)
		if interrupt(ctx, client, url+"/api/conversations/"+id, key) {
			_ = os.Remove(file) // else once more
		}
		_ = lock.Release() // the end of the process does it too
	}
}

// interrupt reports whether the server was told. One that cannot interrupt is asked to
// pause, which ends the run after its present step.
func interrupt(ctx context.Context, client *http.Client, conversation, key string) bool {
	for _, verb := range []string{"interrupt", "pause"} {
		status, _, err := ask(ctx, client, http.MethodPost, conversation+"/"+verb, key)
		switch {
		case err != nil || status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
			return false
		case status < http.StatusBadRequest:
			return true
		}
	}
	return true // it does not know the conversation
}
