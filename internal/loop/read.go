package loop

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// answer is what one os-poll said.
type answer struct {
	issues  []*wire.Issue
	gone    []string
	summary *wire.Summary
	status  int
}

// poll asks for all active issues.
func (p *programs) poll(ctx context.Context, limit time.Duration) schedule.Fact {
	a, failure := p.tracker(ctx, limit, nil, "--active", "--atomic", "--summary")
	if failure != nil {
		return schedule.PollFailed{Failure: *failure}
	}
	complete := a.status == cli.StatusOK && a.summary != nil && !a.summary.Truncated && a.summary.Malformed == 0
	return schedule.Polled{Issues: a.issues, Complete: complete}
}

// read asks for issues by id.
func (p *programs) read(ctx context.Context, limit time.Duration, ids []string) schedule.Fact {
	a, failure := p.tracker(ctx, limit, []byte(strings.Join(ids, "\n")+"\n"), "--ids-from", "-", "--summary")
	if failure != nil {
		return schedule.ReadFailed{Failure: *failure}
	}
	return schedule.Read{Issues: a.issues, Gone: a.gone}
}

func (p *programs) tracker(ctx context.Context, limit time.Duration, stdin []byte, args ...string) (*answer, *schedule.Failure) {
	argv := append([]string{"os-poll", "--workflow", p.workflow, "--timeout", limit.String()}, args...)
	// os-poll keeps the limit itself; the rest is for one that does not.
	r, err := p.ask(ctx, limit+askGrace, stdin, argv...)
	if err != nil {
		category := wire.CauseUnavailable
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			category = wire.CauseConfig
		}
		return nil, &schedule.Failure{Category: category, Message: err.Error()}
	}
	defer r.close()
	return p.answer(r)
}

func (p *programs) answer(r *reply) (*answer, *schedule.Failure) {
	a := &answer{status: r.exit.Status()}
	err := r.records("issue", func(rec wire.Record) {
		switch rec := rec.(type) {
		case *wire.Issue:
			a.issues = append(a.issues, rec)
		case *wire.Gone:
			a.gone = append(a.gone, rec.ID)
		case *wire.Summary:
			a.summary = rec
		}
	})
	if a.status == cli.StatusOK || a.status == cli.StatusData {
		if err != nil {
			return nil, &schedule.Failure{Category: wire.CauseProtocol, Message: err.Error()}
		}
		p.passOn(r)
		return a, nil
	}
	failure := &schedule.Failure{Category: categoryOf[a.status], Message: r.reason()}
	if failure.Category == "" {
		failure.Category = wire.CauseInternal
	}
	if a.summary != nil && a.summary.RateLimit != nil && failure.Category == wire.RateLimited {
		failure.RetryAt = a.summary.RateLimit.ResetAt
	}
	return nil, failure
}
