package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workspace"
)

// sweeper is one call of sweep. What there is was looked up once: a tracker has far more
// ended issues than a root has workspaces.
type sweeper struct {
	*command
	byKey   map[string]workspace.Entry
	byID    map[string]workspace.Entry
	holders map[string][]proc.Process
}

// sweep is the verb: what ended long enough ago goes, and so does what was put aside
// long enough ago.
func (c *command) sweep(ctx context.Context) error {
	entries, holders, err := c.survey()
	if err != nil {
		return stateError(err)
	}
	s := &sweeper{c, map[string]workspace.Entry{}, map[string]workspace.Entry{}, holders}
	for _, e := range entries {
		if errors.Is(e.Err, workspace.ErrElsewhere) {
			e.Err = nil // what goes is the folder that was made, wherever that was
		}
		s.byKey[e.Key()] = e
		if e.Err == nil {
			s.byID[e.Manifest.ID] = e
		}
	}
	err = c.each(ctx, s.record)
	if c.logsOlder > 0 && ctx.Err() == nil && !errors.Is(err, cli.ErrStdoutClosed) {
		if pruned := s.prune(ctx); err == nil {
			err = pruned
		} else {
			c.tell(pruned)
		}
	}
	return err
}

// record sweeps the workspace of one issue, if it has one and is done with.
func (s *sweeper) record(ctx context.Context, in wire.Record) error {
	rec, err := s.issue(in)
	if err != nil || rec == nil || rec.Issue.Category != wire.CategoryTerminal {
		return err
	}
	p, err := s.store.Place(rec.Issue)
	if err != nil {
		return cli.Errorf(cli.StatusData, "issue record: %v", err)
	}
	entry, ok := s.byKey[p.Key]
	if !ok {
		entry, ok = s.byID[rec.Issue.ID] // the tracker may call it by another name by now
	}
	if !ok {
		return nil // most issues of a tracker have none
	}
	if entry.Err == nil && entry.Manifest.ID != rec.Issue.ID {
		return stateError(s.store.Check(p))
	}
	return s.one(ctx, rec.Issue, entry)
}

// one decides what becomes of a workspace, does it, and prints the record.
func (s *sweeper) one(ctx context.Context, issue *wire.Issue, entry workspace.Entry) error {
	out, err := s.listing(ctx, entry, s.holders)
	if err != nil {
		return stateError(err)
	}
	out.Issue, out.Category = issue, issue.Category
	if err := s.measure(ctx, out.Path, out.Listing); err != nil {
		return err
	}
	err = s.decide(ctx, entry, out)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, workspace.ErrNotFound):
		return nil // somebody else was faster
	}
	if out.Action == wire.SweepKept && out.Reason != wire.KeptRecent {
		s.env.Warnf("issue %q is kept: %s", entry.Manifest.Identifier, out.Detail)
	}
	return errors.Join(s.out.Write(out), err)
}

// decide fills in the action. Its error is that of a workspace that could not be removed
// though it should.
func (s *sweeper) decide(ctx context.Context, entry workspace.Entry, out *wire.Workspace) error {
	if last := lastChange(out); s.env.Now().Sub(last) < time.Duration(s.olderThan) {
		keep(out, wire.KeptRecent, "it was seen or changed at "+last.Format(time.RFC3339))
		return nil
	}
	if out.Locked {
		keep(out, wire.KeptBusy, fmt.Sprintf("a run is in flight%s", holder(entry.Dir.Lock())))
		return nil
	}
	if s.dryRun {
		s.rehearse(ctx, entry, out)
		return nil
	}
	archive, err := s.delete(ctx, entry, !s.keepDirty)
	var unsaved *workspace.Unsaved
	switch {
	case err == nil:
		out.Action, out.StateDir = wire.SweepRemoved, string(archive)
		delete(s.byKey, entry.Key())
		delete(s.byID, entry.Manifest.ID)
	case errors.As(err, &unsaved):
		keep(out, wire.KeptUnsaved, err.Error())
		return nil
	case errors.Is(err, state.ErrBusy):
		keep(out, wire.KeptBusy, err.Error())
		return nil
	default:
		keep(out, wire.KeptError, inOne(err))
	}
	return err
}

// rehearse says what would become of a workspace that is neither young nor busy. It holds
// no lock.
func (s *sweeper) rehearse(ctx context.Context, entry workspace.Entry, out *wire.Workspace) {
	out.Action = wire.SweepWouldRemove
	if !s.keepDirty {
		return
	}
	dirty, reason, err := s.store.Dirty(ctx, entry.Place())
	out.Dirty = dirty
	switch {
	case err != nil:
		keep(out, wire.KeptUnsaved, fmt.Sprintf("%q may hold work that is nowhere else: %v", out.Path, err))
	case reason != "":
		keep(out, wire.KeptUnsaved, fmt.Sprintf("%q %s", out.Path, reason))
	}
}

func keep(out *wire.Workspace, reason, detail string) {
	out.Action, out.Reason, out.Detail = wire.SweepKept, reason, detail
}

// lastChange is when the issue was last brought up here or changed in the tracker.
func lastChange(w *wire.Workspace) time.Time {
	last := w.LastSeenAt.Time
	if changed := w.Issue.UpdatedAt.Time; changed.After(last) {
		last = changed
	}
	return last
}

// prune deletes what was put aside long enough ago. Each that stays is one message.
func (s *sweeper) prune(ctx context.Context) error {
	archives, err := s.store.Archives()
	if err != nil {
		return stateError(err)
	}
	var all tally
	for _, a := range archives {
		if s.env.Now().Sub(a.At) < time.Duration(s.logsOlder) {
			continue
		}
		s.tell(all.add(stateError(s.pruneOne(ctx, a))))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if all.closed {
			break
		}
	}
	return all.result()
}

func (s *sweeper) pruneOne(ctx context.Context, a workspace.Archive) error {
	out := a.Place().Record()
	out.Listing = &wire.Listing{Harness: wire.HarnessUnknown, LastSeenAt: a.Manifest.LastSeenAt, Action: wire.SweepWouldPrune}
	if a.Err != nil {
		out.Issue = nil // its name and its age are what counts
	} else if err := s.complete(out.Issue); err != nil {
		return err
	} else {
		out.Category = out.Issue.Category
	}
	if err := s.measure(ctx, string(a.Dir), out.Listing); err != nil {
		return err
	}
	if !s.dryRun {
		if err := s.store.Prune(a); err != nil {
			return err
		}
		out.Action = wire.SweepPruned
	}
	return s.out.Write(out)
}
