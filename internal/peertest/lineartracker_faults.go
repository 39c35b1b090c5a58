package peertest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// linearFault is one thing that goes wrong. The file of faults holds a list of them;
// the first that fits a request is taken.
type linearFault struct {
	Operation string `json:"operation"` // "": any
	After     int    `json:"after"`     // requests that fit and are let through first
	Times     int    `json:"times"`     // 0: always

	Hang   bool              `json:"hang"` // no answer at all
	Drop   bool              `json:"drop"` // the connection is cut
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   *string           `json:"body"`   // in place of the answer
	Code   string            `json:"code"`   // an error envelope in place of the answer
	Set    map[string]any    `json:"set"`    // members of the answer by path, "data.issues.nodes.0"
	Delete []string          `json:"delete"` // members to take out of it
}

// fault returns the fault of a request, or nil. It runs under the lock.
func (l *Linear) fault(entry *linearEntry) *linearFault {
	if l.o.Faults == "" {
		return nil
	}
	text, err := os.ReadFile(l.o.Faults)
	if err != nil {
		return nil // no faults yet
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		body := "faults: " + err.Error()
		return &linearFault{Status: http.StatusTeapot, Body: &body}
	}
	for _, raw := range list {
		var f linearFault
		if err := json.Unmarshal(raw, &f); err != nil || f.Operation != "" && f.Operation != entry.Operation {
			continue
		}
		l.hits[string(raw)]++
		if hit := l.hits[string(raw)]; hit > f.After && (f.Times == 0 || hit <= f.After+f.Times) {
			entry.Fault = raw
			return &f
		}
	}
	return nil
}

// send answers a request, as the fault says, and writes it down.
func (l *Linear) send(w http.ResponseWriter, r *http.Request, reply *linearReply, fault *linearFault, entry *linearEntry) {
	if fault != nil {
		reply = fault.spoil(reply)
	}
	entry.Status, entry.Code = reply.status, codeOf(reply.body)
	l.mu.Lock()
	l.record(entry)
	l.mu.Unlock()
	if fault != nil && fault.Hang {
		select {
		case <-r.Context().Done():
		case <-l.quit:
		}
	}
	if fault != nil && (fault.Drop || fault.Hang) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range reply.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(reply.status)
	// Nobody is left to tell when the client has gone.
	if fault != nil && fault.Body != nil {
		_, _ = io.WriteString(w, *fault.Body)
		return
	}
	_ = json.NewEncoder(w).Encode(reply.body)
}

func (f *linearFault) spoil(reply *linearReply) *linearReply {
	out := &linearReply{status: reply.status, header: maps.Clone(reply.header), body: reply.body}
	if f.Code != "" {
		out = linearError(http.StatusBadRequest, f.Code, strings.ToLower(f.Code), "A fault of the test")
		out.header = maps.Clone(reply.header)
	}
	if f.Status != 0 {
		out.status = f.Status
	}
	if out.header == nil {
		out.header = map[string]string{}
	}
	maps.Copy(out.header, f.Header)
	for path, value := range f.Set {
		setMember(out.body, strings.Split(path, "."), func(at map[string]any, name string) { at[name] = value })
	}
	for _, path := range f.Delete {
		setMember(out.body, strings.Split(path, "."), func(at map[string]any, name string) { delete(at, name) })
	}
	return out
}

// setMember runs change where a path leads to. A path that leads nowhere is left
// alone; the last step is a member, a step before it may be the place in a list.
func setMember(at any, path []string, change func(map[string]any, string)) {
	for len(path) > 1 {
		switch v := at.(type) {
		case map[string]any:
			at = v[path[0]]
		case []any:
			i, err := strconv.Atoi(path[0])
			if err != nil || i >= len(v) {
				return
			}
			at = v[i]
		default:
			return
		}
		path = path[1:]
	}
	switch v := at.(type) {
	case map[string]any:
		change(v, path[0])
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(v) {
			holder := map[string]any{}
			change(holder, "v")
			v[i] = holder["v"]
		}
	}
}

func codeOf(body map[string]any) string {
	errs, _ := body["errors"].([]any)
	if len(errs) == 0 {
		return ""
	}
	first, _ := errs[0].(map[string]any)
	extensions, _ := first["extensions"].(map[string]any)
	code, _ := extensions["code"].(string)
	return code
}
