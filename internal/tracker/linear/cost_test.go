package linear

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// An hour of polls every 30 s, each a list of the active issues and a read of the running
// ones, takes less than a tenth of the quota, by the headers of the stand-in's answers.
func TestQuotaOfAnHour(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) // it stands, so that nothing is refilled
	var issues []string
	for i := range 18 {
		issues = append(issues, fmt.Sprintf(`{"identifier": "ENG-%d", "labels": ["a", "b"], "blocked_by": ["ENG-100"]}`, i+1))
	}
	data := board(strings.Join(append(issues, `{"identifier": "ENG-100", "state": "Done"}`), ","))
	linear, err := peertest.StartLinear(peertest.LinearOptions{Data: []byte(data), Key: testKey, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer linear.Close()
	l := &lab{t: t, linear: linear}
	p := l.open(nil)
	var last *wire.RateLimit
	for range 120 {
		page := list(t, p, "Todo", "In Progress")
		var running []string
		for _, i := range page.Issues[:5] {
			running = append(running, i.ID)
		}
		if page, err = p.ByIDs(t.Context(), running); err != nil {
			t.Fatal(err)
		}
		last = page.RateLimit
	}
	// The limit that is nearest to its end is the one that is told.
	if used := *last.Limit - *last.Remaining; used == 0 || used*10 >= *last.Limit {
		t.Errorf("an hour takes %d of %d", used, *last.Limit)
	}
	t.Logf("an hour takes %d of %d", *last.Limit-*last.Remaining, *last.Limit)
}

// 10,000 issues over 40 pages, each by one request: what has been handed on is not kept.
func TestLongList(t *testing.T) {
	const count, size = 10_000, 250
	l := newLab(t, fmt.Sprintf(`{"projects": [{"slug": %q}], "quota": {"requests": 100000, "complexity": 100000000},
	  "generate": [{"count": %d, "first": 1, "like": {"identifier": "ENG", "labels": ["a"]}}]}`, testSlug, count))
	p := l.open(map[string]any{"page_size": size})
	pages, issues := 0, 0
	var early, late uint64
	err := p.List(t.Context(), tracker.Query{All: true}, func(page *tracker.Page) error {
		pages++
		issues += len(page.Issues)
		switch pages {
		case 4:
			early = live()
		case 40:
			late = live()
		}
		return nil
	})
	if err != nil || issues != count || pages != count/size || l.count("OsIssues") != pages {
		t.Errorf("%d issues on %d pages by %d requests, %v", issues, pages, l.count(""), err)
	}
	// The issues of 36 pages would be some 12 MB.
	if grown := int64(late) - int64(early); grown > 6<<20 {
		t.Errorf("36 pages later %d bytes more are in use", grown)
	}
}

// live is the memory in use, in bytes.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
