package peertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
)

// githubFault is one thing that goes wrong, or happens to the data meanwhile. The file
// of faults holds a list of them; the first that fits a request is taken.
type githubFault struct {
	Match string `json:"match"` // a regular expression for "METHOD PATH?QUERY"; "": any
	After int    `json:"after"` // requests that fit and are let through first
	Times int    `json:"times"` // 0: always

	Hang   bool              `json:"hang"` // no answer at all
	Drop   bool              `json:"drop"` // the connection is cut
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   *string           `json:"body"` // in place of the answer
	// Prepend are changed copies of issues, {"number":…}, that come first in the answer.
	Prepend []map[string]any `json:"prepend"`
	Close   []int            `json:"close"` // issues that are closed right after the answer
}

// fault returns the fault of a request, or nil. It runs under the lock.
func (g *GitHub) fault(r *http.Request, entry *githubEntry) *githubFault {
	if g.o.Faults == "" {
		return nil
	}
	text, err := os.ReadFile(g.o.Faults)
	if err != nil {
		return nil // no faults yet
	}
	broken := func(err error) *githubFault {
		body := "faults: " + err.Error()
		return &githubFault{Status: http.StatusTeapot, Body: &body}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return broken(err)
	}
	for _, raw := range list {
		var f githubFault
		if err := json.Unmarshal(raw, &f); err != nil {
			return broken(err)
		}
		expr, err := regexp.Compile(f.Match)
		if err != nil {
			return broken(err)
		}
		if !expr.MatchString(r.Method + " " + r.URL.RequestURI()) {
			continue
		}
		g.hits[string(raw)]++
		if hit := g.hits[string(raw)]; hit > f.After && (f.Times == 0 || hit <= f.After+f.Times) {
			entry.Fault = raw
			return &f
		}
	}
	return nil
}

// spoil changes an answer, and then the data. It runs under the lock.
func (f *githubFault) spoil(g *GitHub, reply *githubReply) {
	if f == nil {
		return
	}
	if f.Status != 0 {
		*reply = *githubError(f.Status, http.StatusText(f.Status))
	}
	if f.Body != nil {
		reply.body = *f.Body
	}
	for name, value := range f.Header {
		reply.header.Set(name, value)
	}
	if list, ok := reply.body.([]map[string]any); ok {
		var first []map[string]any
		for _, changed := range f.Prepend {
			number, _ := changed["number"].(float64)
			if i := g.world.find(int(number)); i != nil {
				o := g.object(i)
				maps.Copy(o, changed)
				first = append(first, o)
			}
		}
		reply.body = slices.Concat(first, list)
	}
	for _, number := range f.Close {
		if i := g.world.find(number); i != nil {
			i.State = "closed"
		}
	}
}
