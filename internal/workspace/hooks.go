package workspace

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Values of HookResult.Status.
const (
	HookSucceeded = "succeeded"
	HookFailed    = "failed" // a status other than 0, a signal, or never started
	HookTimedOut  = "timed_out"
	HookCancelled = "cancelled"
)

const (
	hookIDName   = "OS_HOOK_ID"    // the mark by which a hook's children are found
	hookExcerpt  = 2 << 10         // bytes of output in a result, at either end
	hookGrace    = 2 * time.Second // between SIGTERM and SIGKILL
	hookDeath    = 2 * time.Second // what the kernel gets to end what was killed
	hookTidyTime = 5 * time.Second // to find and end what was left over
)

// Hook is one script of the user, to be run once.
type Hook struct {
	Name, Script string        // Script is a text for sh -c
	Dir          string        // where it runs
	LogPath      string        // gets all its output; made anew, with its folder
	Env          []string      // the whole environment, as from HookEnv
	Timeout      time.Duration // 0: only the context bounds it
	Lock         *state.Lock   // held as long as anything of the hook lives; nil: none
}

// HookResult is how a hook ended, as run.json keeps it.
type HookResult struct {
	Name       string    `json:"name"`
	Command    string    `json:"command"`
	Status     string    `json:"status"`    // succeeded failed timed_out cancelled
	ExitCode   *int64    `json:"exit_code"` // null after a signal, and where it never started
	Signal     wire.Text `json:"signal"`    // SIGTERM, …
	Error      wire.Text `json:"error"`     // why it could not be started, read or tidied up after
	StartedAt  wire.Time `json:"started_at"`
	DurationMS int64     `json:"duration_ms"`
	// The two ends of its output, valid UTF-8. Put together they are all of it, unless
	// Truncated says that something between them is left out.
	OutputHead string `json:"output_head"`
	OutputTail string `json:"output_tail"`
	Truncated  bool   `json:"truncated"`
	Leftover   int64  `json:"leftover"` // background children that had to be killed
	// Where the workflow names a lock for the hook, and how long it waited for it. The
	// wait is part of the duration.
	Lock     string `json:"lock,omitempty"`
	WaitedMS *int64 `json:"waited_ms,omitempty"`
}

// Succeeded tells whether the hook did its work.
func (r *HookResult) Succeeded() bool { return r.Status == HookSucceeded }

// String says in one line how the hook ended, with the last line of its output.
func (r *HookResult) String() string {
	text := r.Name + ": " + strings.ReplaceAll(r.Status, "_", " ")
	switch {
	case r.Error != "":
		text += ", " + string(r.Error)
	case r.Signal != "":
		text += ", signal " + string(r.Signal)
	case r.ExitCode != nil:
		text += fmt.Sprintf(", exit status %d", *r.ExitCode)
	}
	return text + r.lastLine()
}

// lastLine is the last line of the output with a colon before it, or "".
func (r *HookResult) lastLine() string {
	const limit = 200 // for a message
	output := strings.TrimSpace(r.OutputHead + r.OutputTail)
	last := output[strings.LastIndexByte(output, '\n')+1:]
	if last == "" {
		return ""
	}
	if len(last) > limit {
		last = strings.ToValidUTF8(last[:limit], "") + "…"
	}
	return ": " + last
}

// RunHook runs h and returns once it has ended and nothing that it started is left,
// in a session of its own or not. It never takes longer than the timeout and some
// seconds to end what is left over. Its output goes to the log file and nowhere else:
// there is no pipe that a child could hold open, and no memory that it could fill.
//
// When ctx ends, the hook is stopped as after a timeout and the status is cancelled.
func RunHook(ctx context.Context, h Hook, now func() time.Time) HookResult {
	began := now()
	r := HookResult{Name: h.Name, Command: h.Script, Status: HookFailed, StartedAt: wire.At(began)}
	if err := runHook(ctx, h, &r); err != nil {
		r.Error = wire.Text(err.Error())
	}
	r.DurationMS = max(0, now().Sub(began).Milliseconds()) // a wall clock may be set back
	return r
}

func runHook(ctx context.Context, h Hook, r *HookResult) error {
	if ctx.Err() != nil {
		r.Status = HookCancelled
		return nil
	}
	log, err := runHookLog(h.LogPath)
	if err != nil {
		return err
	}
	defer log.Close()
	var locks []*os.File
	if h.Lock != nil {
		locks = append(locks, h.Lock.File())
	}
	id := rand.Text() // told to nobody, so it need not be a given one
	child, err := proc.Start(proc.Spec{
		Argv:    []string{"/bin/sh", "-c", h.Script},
		Dir:     h.Dir,
		Env:     proc.Environ(h.Env, nil, map[string]string{hookIDName: id}),
		Stdout:  log,
		Stderr:  log,
		Extra:   locks, // so that a hook that outlives us still keeps others from running
		Session: true,
		Leave:   true, // counted below
	})
	if err != nil {
		return err
	}
	grace := runHookWait(ctx, child, h.Timeout, r)
	tidied := runHookTidy(ctx, child, id, grace, r)
	if err := runHookOutput(log, r); err != nil {
		return err
	}
	return tidied
}

// runHookLog opens the log so that it can be read back whatever the hook does to its
// name. Appending keeps the output whole when a hook opens /dev/stderr once more.
func runHookLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// runHookWait waits for the script's own end and notes it. It returns how long the
// script's children may still take to end by themselves: none, unless they were told to.
func runHookWait(ctx context.Context, child *proc.Child, timeout time.Duration, r *HookResult) time.Duration {
	if timeout <= 0 {
		timeout = math.MaxInt64
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-child.Done():
		if r.end(child.Exit()); child.Exit().Success() {
			r.Status = HookSucceeded
		}
		return 0
	case <-timer.C:
		r.Status = HookTimedOut
	case <-ctx.Done():
		r.Status = HookCancelled
	}
	told := time.Now()
	child.Stop(nil, child.Send(syscall.SIGTERM, hookGrace), child.Send(syscall.SIGKILL, hookDeath))
	select {
	case <-child.Done():
		r.end(child.Exit())
	default: // held back by the kernel
	}
	return hookGrace - time.Since(told)
}

func (r *HookResult) end(exit proc.Exit) {
	if exit.Signal != 0 {
		r.Signal = wire.Text(unix.SignalName(exit.Signal))
	} else if exit.Code >= 0 {
		r.ExitCode = wire.Count(int64(exit.Code))
	}
}

// runHookTidy ends what the script left: first its session, then whatever else carries
// its mark. It goes on when ctx has ended, within a limit of its own.
func runHookTidy(ctx context.Context, child *proc.Child, id string, grace time.Duration, r *HookResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTidyTime)
	defer cancel()
	near, nearErr := child.KillGroup(ctx, grace)
	far, farErr := proc.Sweep(ctx, func(env func(string) string) bool { return env(hookIDName) == id })
	r.Leftover = int64(len(near) + len(far))
	if nearErr != nil {
		return fmt.Errorf("end what the hook left: %w", nearErr)
	}
	if farErr != nil {
		return fmt.Errorf("end what the hook left: %w", farErr)
	}
	return nil
}

// runHookOutput reads the two ends of the log.
func runHookOutput(log *os.File, r *HookResult) error {
	info, err := log.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	var head, tail string
	if r.Truncated = size > 2*hookExcerpt; r.Truncated {
		if head, err = runHookRead(log, 0, hookExcerpt); err == nil {
			tail, err = runHookRead(log, size-hookExcerpt, hookExcerpt)
		}
	} else if head, err = runHookRead(log, 0, size); err == nil {
		head, tail = runHookHalves(head)
	}
	const replacement = "\uFFFD"
	r.OutputHead, r.OutputTail = strings.ToValidUTF8(head, replacement), strings.ToValidUTF8(tail, replacement)
	return err
}

// runHookHalves cuts a short output where no rune is torn.
func runHookHalves(text string) (head, tail string) {
	if len(text) <= hookExcerpt {
		return text, ""
	}
	cut := hookExcerpt
	for cut > hookExcerpt-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut], text[cut:]
}

func runHookRead(log *os.File, from, size int64) (string, error) {
	b, err := io.ReadAll(io.NewSectionReader(log, from, size))
	return string(b), err
}

// HookEnv returns the environment of a hook: from base only what a script needs to find
// its programs and its user, and the names in allow; then the facts. Variables that
// lead git to another repository never pass.
func HookEnv(base []string, allow []string, facts map[string]string) []string {
	pass := append([]string{"PATH", "HOME", "SHELL", "USER", "LANG", "TZ", "TMPDIR"}, allow...)
	environ := proc.Environ(base, func(name string) bool {
		return !strings.HasPrefix(name, "LC_") && !slices.Contains(pass, name)
	}, facts)
	return proc.Environ(environ, proc.GitLocation, nil)
}
