package workspace

import (
	"context"
	"errors"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// remove is the verb: settle, before_remove, and the folder is gone. Each workspace
// that stays is one message, and the rest goes on.
func (c *command) remove(ctx context.Context) error {
	if len(c.refs) == 0 {
		return c.each(ctx, c.removeRecord)
	}
	var all tally
	for _, ref := range c.refs {
		if ctx.Err() != nil {
			break
		}
		c.tell(all.add(c.removeNamed(ctx, ref)))
	}
	if all.status == cli.StatusOK && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return all.result()
}

func (c *command) removeRecord(ctx context.Context, in wire.Record) error {
	rec, err := c.issue(in)
	if err != nil || rec == nil {
		return err
	}
	p, _, err := c.place(rec)
	if err != nil {
		return err
	}
	err = c.removeNamed(ctx, p.Issue.Identifier)
	if errors.Is(err, workspace.ErrNotFound) {
		return nil // most issues of a tracker have none, and that is what is wanted
	}
	return err
}

func (c *command) removeNamed(ctx context.Context, ref string) error {
	entry, err := c.store.Find(ref)
	switch {
	case errors.Is(err, workspace.ErrNotFound):
		return cli.Errorf(cli.StatusNoInput, "%w", err)
	case err != nil && !errors.Is(err, workspace.ErrElsewhere):
		return stateError(err)
	}
	p := entry.Place()
	err = c.locked(ctx, p, func(*state.Lock) error {
		if err := c.settle(ctx, c.life(p, p.Record())); err != nil {
			return err
		}
		return c.delete(ctx, entry)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// delete removes a settled workspace. A second signal ends its hook, as any other.
func (c *command) delete(ctx context.Context, entry workspace.Entry) error {
	ctx, release := c.unhurried(ctx)
	defer release()
	id, err := state.NewRunID(c.env.Now(), c.env.Rand)
	if err != nil {
		return err
	}
	hook, err := c.store.Remove(ctx, entry, workspace.RemoveOptions{Force: c.force, ID: id})
	if hook != nil && !hook.Succeeded() {
		c.env.Warnf("issue %q: %s", entry.Manifest.Identifier, hook)
	}
	var unsaved *workspace.Unsaved
	if errors.As(err, &unsaved) {
		return cli.Errorf(cli.StatusState, "%w; --force deletes it nevertheless", err)
	}
	return err
}
