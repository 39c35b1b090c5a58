package loop

import (
	"context"
	"io"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/state"
)

// framePause is the least time between two frames: nobody reads faster.
const framePause = 100 * time.Millisecond

// watchStatus prints what draw makes of each view that gives another text than the one
// before, until a signal or until nobody reads any more. The scheduler may die and
// come back meanwhile.
func watchStatus(ctx context.Context, env *cli.Env, root state.Root, draw func(*loop.View) string) error {
	changes, err := watchLoop(env, root.Loop())
	if err != nil {
		return err
	}
	defer changes.Close()
	pause := time.NewTicker(framePause)
	defer pause.Stop()
	last := ""
	for {
		select {
		case <-changes.C():
		case <-ctx.Done():
			return nil
		}
		if cli.ReaderGone(env.Stdout) {
			return cli.ErrStdoutClosed
		}
		v, err := look(root)
		if err != nil {
			return err
		}
		if text := draw(v); text != last {
			last = text
			if _, err := io.WriteString(env.Stdout, text); err != nil {
				return err
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
	}
}
