package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"ostoolkit/internal/tracker"
)

// REFERENCE 12, item 4.
func TestPages(t *testing.T) {
	yes, no := new(true), new(false)
	type step struct {
		more   *bool
		cursor string
	}
	for name, c := range map[string]struct {
		steps []step
		wrong bool
	}{
		"to the end":            {[]step{{yes, "a"}, {yes, "b"}, {no, ""}}, false},
		"an end with a cursor":  {[]step{{no, "a"}}, false},
		"it does not say":       {[]step{{yes, "a"}, {nil, ""}}, true},
		"blank cursor":          {[]step{{yes, ""}}, true},
		"repeated cursor":       {[]step{{yes, "a"}, {yes, "a"}}, true},
		"a ring":                {[]step{{yes, "a"}, {yes, "b"}, {yes, "a"}}, true},
		"no end, as far as Max": {[]step{{yes, "a"}, {yes, "b"}, {yes, "c"}}, true},
	} {
		p := Pages{What: "issues", Max: 3}
		for i, s := range c.steps {
			again, err := p.Next(s.more, s.cursor)
			last := i == len(c.steps)-1
			var typed *tracker.Error
			switch {
			case last && c.wrong:
				if !errors.As(err, &typed) || typed.Category != tracker.BadPaging || again {
					t.Errorf("%s: %v", name, err)
				}
			case err != nil || again == last:
				t.Errorf("%s, page %d: %v, %v", name, i+1, again, err)
			}
		}
	}
}

func TestPagesTellAnIDOnce(t *testing.T) {
	var p Pages
	if !p.First("7") || p.First("7") || !p.First("8") {
		t.Error("an id came twice, or not at all")
	}
}

func TestEach(t *testing.T) {
	var now, most, done atomic.Int64
	err := Each(t.Context(), 50, 3, func(context.Context, int) error {
		most.Store(max(most.Load(), now.Add(1)))
		done.Add(1)
		now.Add(-1)
		return nil
	})
	if err != nil || done.Load() != 50 || most.Load() > 3 {
		t.Errorf("%d done, %d at once, %v", done.Load(), most.Load(), err)
	}
	broken := errors.New("broken")
	err = Each(t.Context(), 50, 3, func(ctx context.Context, i int) error {
		if i == 1 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Errorf("the first error is %v", err)
	}
}

// tagged is a base whose answers have tags and may change.
type tagged struct {
	version  int
	asked    int // for whole answers
	size     int
	noTag    bool
	lastSeen string
}

func (b *tagged) RoundTrip(req *http.Request) (*http.Response, error) {
	tag := `W/"` + strconv.Itoa(b.version) + `"`
	res := &http.Response{StatusCode: 200, Header: http.Header{"Etag": {tag}, "X-Left": {strconv.Itoa(b.asked)}}}
	b.lastSeen = req.Header.Get("If-None-Match")
	body := strconv.Itoa(b.version) + strings.Repeat(".", b.size)
	if b.lastSeen == tag {
		res.StatusCode, body = 304, ""
	} else {
		b.asked++
	}
	if b.noTag {
		res.Header.Del("Etag")
	}
	res.Body = io.NopCloser(strings.NewReader(body))
	return res, nil
}

func get(t *testing.T, rt http.RoundTripper, url string) (string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	return string(b), res.Header
}

func TestCacheConfirms(t *testing.T) {
	b := &tagged{}
	c := &Cache{Base: b, Max: 1000}
	get(t, c, "http://hub/a")
	body, header := get(t, c, "http://hub/a")
	if body != "0" || b.asked != 1 || header.Get("X-Left") != "1" {
		t.Errorf("body %q, asked %d, header %v: the figures have to be the new ones", body, b.asked, header)
	}
	b.version = 1
	if body, _ := get(t, c, "http://hub/a"); body != "1" {
		t.Errorf("after a change: %q", body)
	}
	if body, _ := get(t, c, "http://hub/a"); body != "1" || b.asked != 2 {
		t.Errorf("the new answer is not kept: %q, asked %d", body, b.asked)
	}
}

func TestCacheIsBounded(t *testing.T) {
	b := &tagged{size: 99}
	c := &Cache{Base: b, Max: 250}
	for _, url := range []string{"a", "b", "a", "c", "a", "b"} { // c drives b out, a was used since
		get(t, c, "http://hub/"+url)
	}
	if b.asked != 4 || c.size != 200 {
		t.Errorf("asked %d times, %d bytes kept", b.asked, c.size)
	}
	b.size = 999
	get(t, c, "http://hub/huge")
	if get(t, c, "http://hub/huge"); b.lastSeen != "" || c.size > c.Max {
		t.Errorf("an answer over the bound is kept: %d bytes", c.size)
	}
	b.noTag = true
	get(t, c, "http://hub/plain")
	if get(t, c, "http://hub/plain"); b.lastSeen != "" {
		t.Error("an answer without a tag is kept")
	}
}
