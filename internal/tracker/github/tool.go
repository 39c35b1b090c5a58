package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

type object map[string]any

func methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}
}

// changeable are the parts of a repository that the tool may change. What is missing
// here on purpose would give an agent more than its issue: settings, keys, webhooks,
// secrets, workflows, branches.
func changeable() []string { return []string{"issues", "pulls", "labels", "milestones"} }

// Tools implements tracker.Tracker.
func (r *Repo) Tools() []tracker.Tool {
	about := "Send one request to GitHub's REST API with the credential of this tracker. "
	if r.anyScope {
		about += "It reaches whatever that credential does."
	} else {
		about += fmt.Sprintf("Paths begin with /repos/%s; changes are limited to its %s.", r.repo, strings.Join(changeable(), ", "))
	}
	schema, _ := wire.Encode(object{ // nothing in it can fail to encode
		"type": "object", "additionalProperties": false, "required": []string{"method", "path"},
		"properties": object{
			"method": object{"type": "string", "enum": methods()},
			"path":   object{"type": "string", "description": fmt.Sprintf("like /repos/%s/issues/1/comments, without a query", r.repo)},
			"params": object{"type": []string{"object", "null"}, "description": "the query"},
			"body":   object{"description": "any JSON"},
		},
	})
	return []tracker.Tool{{Name: "github_api", Description: about, InputSchema: schema, Call: r.api}}
}

// arguments of github_api.
type arguments struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Params map[string]any  `json:"params"`
	Body   json.RawMessage `json:"body"`
}

// api runs the tool. Its result is the answer, also a refusal: then there is an error
// besides. It is sent once: only the caller knows whether it can be repeated.
func (r *Repo) api(ctx context.Context, call tracker.Call) (wire.Record, error) {
	args, err := readArguments(call.Args)
	if err != nil {
		return nil, err
	}
	if !r.anyScope {
		if err := r.within(args); err != nil {
			return nil, err
		}
	}
	query, err := args.query()
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if len(args.Body) > 0 && !bytes.Equal(args.Body, []byte("null")) {
		body = bytes.NewReader(args.Body)
	}
	a, err := r.send(remote.AsIs(ctx), args.Method, r.endpoint+args.Path+query, body)
	if err != nil {
		return nil, err
	}
	record, err := remote.Result(a.res, a.body, useful)
	if err == nil && (a.res.StatusCode < 200 || a.res.StatusCode > 299) {
		return record, r.refused(a)
	}
	return record, err
}

// useful are the headers that tell how to go on.
func useful(name string) bool {
	return strings.HasPrefix(name, "x-ratelimit-") || slices.Contains([]string{"link", "location", "retry-after", "etag"}, name)
}

func readArguments(raw json.RawMessage) (*arguments, error) {
	var a arguments
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return nil, tracker.Errorf(tracker.BadArguments, "arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, tracker.Errorf(tracker.BadArguments, "arguments: more than one JSON value")
	}
	a.Method, a.Path = strings.ToUpper(strings.TrimSpace(a.Method)), strings.TrimSpace(a.Path)
	if !slices.Contains(methods(), a.Method) {
		return nil, tracker.Errorf(tracker.BadArguments, "arguments: method %q is not one of %s", a.Method, strings.Join(methods(), ", "))
	}
	if _, err := segments(a.Path); err != nil {
		return nil, err
	}
	return &a, nil
}

// segments returns the parts of a path as the server will see them. Whatever could be
// read in two ways is refused: a scope that is checked on one reading is none.
func segments(path string) ([]string, error) {
	wrong := func(why string) ([]string, error) {
		return nil, tracker.Errorf(tracker.BadArguments, "arguments: path %q %s", path, why)
	}
	plain, err := url.PathUnescape(path)
	switch {
	case err != nil:
		return wrong("is badly escaped")
	case !strings.HasPrefix(path, "/") || strings.Contains(path, "://"):
		return wrong("does not begin with a slash")
	case strings.ContainsAny(path, "?#"):
		return wrong("holds a query; that belongs into params")
	case strings.ContainsFunc(plain, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }):
		return wrong("holds a character that no path has")
	case strings.Count(plain, "/") != strings.Count(path, "/"):
		return wrong("holds an escaped slash")
	}
	parts := strings.Split(plain[1:], "/")
	if slices.ContainsFunc(parts, func(p string) bool { return p == "" || dots(p) }) {
		return wrong("holds an empty part or dots")
	}
	return parts, nil
}

// within checks that a call stays in the repository, and changes nothing but what
// issues are about.
func (r *Repo) within(a *arguments) error {
	parts, err := segments(a.Path)
	if err != nil {
		return err
	}
	owner, name, _ := strings.Cut(r.repo, "/")
	if len(parts) < 3 || parts[0] != "repos" || !strings.EqualFold(parts[1], owner) || !strings.EqualFold(parts[2], name) {
		return outOfScope("path %q is not below /repos/%s", a.Path, r.repo)
	}
	if a.Method != http.MethodGet && (len(parts) < 4 || !slices.Contains(changeable(), parts[3])) {
		return outOfScope("%s %s is more than a change of %s", a.Method, a.Path, strings.Join(changeable(), ", "))
	}
	return nil
}

func outOfScope(format string, args ...any) error {
	e := tracker.Errorf(tracker.Denied, format, args...)
	e.Hint = "os-poll tool --tool-scope any lifts the limit"
	return e
}

// query returns params as a query, with its question mark.
func (a *arguments) query() (string, error) {
	q := url.Values{}
	for name, v := range a.Params {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, v := range list {
			switch v := v.(type) {
			case string:
				q.Add(name, v)
			case bool:
				q.Add(name, strconv.FormatBool(v))
			case float64:
				q.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
			default:
				return "", tracker.Errorf(tracker.BadArguments, "arguments: params: %q is neither a text nor a number nor a truth value", name)
			}
		}
	}
	if len(q) == 0 {
		return "", nil
	}
	return "?" + q.Encode(), nil
}
