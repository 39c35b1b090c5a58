package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	ensureIssues = 10_000
	ensureGoal   = 12.0 // ten times the issues: linear, and something for the noise
	runsInOne    = 100  // runs of one call of os-workspace run
)

// workspaces measures how the making of folders grows and what a run costs besides
// the program that it runs.
func workspaces(ctx context.Context, r *rig) ([]row, error) {
	n := r.rounds(ensureIssues, ensureIssues/10)
	few, many, err := r.ensure(ctx, n)
	if err != nil {
		return nil, err
	}
	made := compared(fmt.Sprintf("ensure %d issues", n), many, few, fmt.Sprintf("%d issues", n/10)).
		within(fmt.Sprintf("<= %.0fx", ensureGoal), ratio(many, few) <= ensureGoal)
	ran, err := r.runOverhead(ctx)
	if err != nil {
		return []row{made}, err
	}
	return []row{made, ran}, nil
}

// ensure returns what n issues take, and a tenth of them. Most of it is the disk,
// which is slow and moody: the tenth is made before, between and after
// the others.
func (r *rig) ensure(ctx context.Context, n int) (few, many time.Duration, err error) {
	var tenth, whole sample
	for _, issues := range []int{n / 10, n, n / 10, n, n / 10} {
		took, err := r.workspace(ctx, issues, "ensure")
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("ensure %d issues: %w", issues, err)
		case issues == n:
			whole = append(whole, took)
		default:
			tenth = append(tenth, took)
		}
	}
	return tenth.median(), whole.median(), nil
}

func (r *rig) runOverhead(ctx context.Context) (row, error) {
	s, err := inTurn(ctx, r.rounds(5, 3),
		task{"sh", func(ctx context.Context) (total time.Duration, err error) {
			for range runsInOne {
				took, err := timed(r.command(ctx, "sh", "-c", "true"))
				if err != nil {
					return 0, err
				}
				total += took
			}
			return total, nil
		}},
		task{"run", func(ctx context.Context) (time.Duration, error) {
			return r.workspace(ctx, runsInOne, "run", "--", "true")
		}})
	if err != nil {
		return row{}, err
	}
	return compared("os-workspace run -- true, each", s[1].median()/runsInOne, s[0].median()/runsInOne, "sh -c true"), nil
}

// workspace gives so many issues to one call of os-workspace, in a root of its own.
func (r *rig) workspace(ctx context.Context, issues int, verb string, args ...string) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(r.dir, "roots-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := r.command(ctx, "os-workspace", append([]string{verb, "--root", dir + "/root", "--state-root", dir + "/state"}, args...)...)
	var in bytes.Buffer
	for i := range issues {
		fmt.Fprintf(&in, `{"v":1,"type":"issue","id":"%d","identifier":"A-%d","title":"Do it","state":"Todo"}`+"\n", i, i)
	}
	out := &lines{}
	cmd.Stdin, cmd.Stdout = &in, out
	if took, err = timed(cmd); err == nil && out.n != issues {
		err = fmt.Errorf("%d records for %d issues", out.n, issues)
	}
	return took, err
}

// lines counts the lines that are written to it.
type lines struct{ n int }

func (l *lines) Write(p []byte) (int, error) {
	l.n += bytes.Count(p, []byte("\n"))
	return len(p), nil
}
