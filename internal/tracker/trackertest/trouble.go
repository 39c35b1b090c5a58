package trackertest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"ostoolkit/internal/tracker"
)

// together asks from several goroutines at once; the race detector listens.
func (h *Harness) together(t *testing.T) {
	s := h.open(t, h.some()...)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			page, err := tracker.Collect(t.Context(), s.Tracker, tracker.Query{All: true})
			if err != nil || len(page.Issues) != 4 {
				t.Errorf("list: %v", err)
			}
		})
		all.Go(func() {
			if page, err := s.Tracker.ByIDs(t.Context(), s.want(1, 2, 3)); err != nil || len(page.Issues) != 3 {
				t.Errorf("ids: %v", err)
			}
		})
	}
	all.Wait()
}

func (h *Harness) tools(t *testing.T) {
	s := h.open(t, h.some()...)
	seen := map[string]bool{}
	for _, tool := range s.Tracker.Tools() {
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil || schema.Type != "object" || tool.Description == "" || seen[tool.Name] {
			t.Errorf("tool %q: schema %s, %v", tool.Name, tool.InputSchema, err)
		}
		seen[tool.Name] = true
		_, err := tool.Call(t.Context(), tracker.Call{
			Args:    json.RawMessage(`{"no_such_argument":1}`),
			Current: func() (string, error) { return s.Identifier(1), nil },
		})
		var typed *tracker.Error
		if !errors.As(err, &typed) || typed.Category != tracker.BadArguments {
			t.Errorf("tool %q with an unknown argument: %v", tool.Name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	cancel(stopped)
	if err := s.Tracker.List(ctx, tracker.Query{All: true}, func(*tracker.Page) error { return nil }); !errors.Is(err, stopped) {
		t.Errorf("list after the end of its context: %v", err)
	}
}

// trouble is an error of its category for lists and for ids, never an empty answer, and
// its words show no secret.
func (h *Harness) trouble(t *testing.T, trouble Trouble, want tracker.Category) {
	s := h.Open(t, Board{Issues: h.some(), Trouble: trouble}, h.rules())
	check := func(what string, err error) {
		t.Helper()
		var typed *tracker.Error
		if !errors.As(err, &typed) || typed.Category != want {
			t.Errorf("%s: %v, want category %q", what, err, want)
			return
		}
		if want == tracker.RateLimited && typed.RetryAt.IsZero() {
			t.Errorf("%s: no time to ask again: %v", what, err)
		}
		for _, secret := range s.Secrets {
			if strings.Contains(err.Error()+typed.Hint, secret) {
				t.Errorf("%s: a secret in %q", what, err)
			}
		}
	}
	err := s.Tracker.List(t.Context(), tracker.Query{States: []string{h.Active}}, func(*tracker.Page) error { return nil })
	check("list", err)
	if trouble != PagesInARing && trouble != TooMuchAsked { // these are of lists
		page, err := s.Tracker.ByIDs(t.Context(), s.want(1, 2))
		check("ids", err)
		if page != nil {
			t.Errorf("ids: an answer beside the error: %+v", page)
		}
	}
}
