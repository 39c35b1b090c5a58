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
	entry := c.store.Entry(p.Key)
	if errors.Is(entry.Err, workspace.ErrNotFound) {
		return nil // most issues of a tracker have none, and that is what is wanted
	}
	return c.removeEntry(ctx, entry)
}

func (c *command) removeNamed(ctx context.Context, ref string) error {
	entry, err := c.store.Find(ref)
	if errors.Is(err, workspace.ErrNotFound) {
		return cli.Errorf(cli.StatusNoInput, "%w", err)
	}
	entry.Err = err
	return c.removeEntry(ctx, entry)
}

func (c *command) removeEntry(ctx context.Context, entry workspace.Entry) error {
	_, err := c.delete(ctx, entry, c.force)
	var unsaved *workspace.Unsaved
	if errors.As(err, &unsaved) {
		return cli.Errorf(cli.StatusState, "%w; --force deletes it nevertheless", err)
	}
	return err
}

// delete settles a workspace under its lock and removes it; archive is where its state
// is then. One of another root is taken too.
func (c *command) delete(ctx context.Context, entry workspace.Entry, force bool) (archive state.Dir, err error) {
	if entry.Err != nil && !errors.Is(entry.Err, workspace.ErrElsewhere) {
		return "", stateError(entry.Err)
	}
	id, err := state.NewRunID(c.env.Now(), c.env.Rand)
	if err != nil {
		return "", err
	}
	p := entry.Place()
	err = c.locked(ctx, p, func(*state.Lock) error {
		if err := c.settle(ctx, c.life(p, p.Record())); err != nil {
			return err
		}
		return c.deleteSettled(ctx, entry, workspace.RemoveOptions{Force: force, ID: id})
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c.store.ArchiveDir(p.Key, id), err
}

// deleteSettled removes the workspace. A second signal ends its hook, as any other.
func (c *command) deleteSettled(ctx context.Context, entry workspace.Entry, o workspace.RemoveOptions) error {
	ctx, release := c.unhurried(ctx)
	defer release()
	hook, err := c.store.Remove(ctx, entry, o)
	if hook != nil && !hook.Succeeded() {
		c.env.Warnf("issue %q: %s", entry.Manifest.Identifier, hook)
	}
	return err
}
