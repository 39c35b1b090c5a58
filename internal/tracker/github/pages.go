package github

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
)

// perPage is the most that GitHub gives.
const perPage = 100

// page is where a page of a list is, and the tag that it had, or "".
type page struct{ address, etag string }

// pages calls use with the entries of each page of a list that begins at address, and
// returns what it read.
func (r *Repo) pages(ctx context.Context, what, address string, use func([]json.RawMessage) error) ([]page, error) {
	guard := remote.Pages{What: what}
	var read []page
	for {
		a, err := r.get(ctx, address)
		if err != nil {
			return nil, err
		}
		entries, err := r.entries(what, a)
		if err != nil {
			return nil, err
		}
		if err := use(entries); err != nil {
			return nil, err
		}
		read = append(read, page{address, a.res.Header.Get("ETag")})
		next, err := next(what, address, a.res.Header.Get("Link"), len(entries))
		if err != nil {
			return nil, err
		}
		again, err := guard.Next(new(next != ""), next)
		if err != nil || !again {
			return read, err
		}
		address = next
	}
}

// entries are those of one page.
func (r *Repo) entries(what string, a *answer) (entries []json.RawMessage, err error) {
	if a.res.StatusCode != http.StatusOK {
		return nil, r.refused(a)
	}
	if err := json.Unmarshal(a.body, &entries); err != nil || entries == nil {
		return nil, tracker.Errorf(tracker.BadResponse, "%s: GitHub's answer is not a list: %s", what, r.options.Secrets.Preview(string(a.body)))
	}
	return entries, nil
}

var nextLink = regexp.MustCompile(`<([^<>]+)>[^,]*;\s*rel="?next"?`)

// next returns the address of the page behind this one, or "". GitHub names it; where
// something in between has taken the header away, a full page shows that there may be
// another, and only a short one proves the end.
func next(what, address, link string, entries int) (string, error) {
	here, err := url.Parse(address)
	if err != nil {
		return "", tracker.Errorf(tracker.BadPaging, "%s: %q is no address", what, address)
	}
	if m := nextLink.FindStringSubmatch(link); m != nil {
		next, err := here.Parse(m[1])
		if err != nil || next.Scheme != here.Scheme || next.Host != here.Host || next.User != nil {
			return "", tracker.Errorf(tracker.BadPaging, "%s: the next page is at another host", what)
		}
		return next.String(), nil
	}
	if entries < perPage || link != "" {
		return "", nil
	}
	q := here.Query()
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		page = 1
	}
	q.Set("page", strconv.Itoa(page+1))
	here.RawQuery = q.Encode()
	return here.String(), nil
}

// offset tells whether the page is found by counting entries, so that an entry that
// leaves the list moves all later ones.
func (p page) offset() bool {
	u, err := url.Parse(p.address)
	return err != nil || !u.Query().Has("after") && !strings.Contains(u.RawQuery, "cursor")
}
