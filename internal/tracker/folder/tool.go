package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// object is a part of a JSON Schema.
type object map[string]any

// Tools implements tracker.Tracker. The scope of both is the board.
func (b *Board) Tools() []tracker.Tool {
	labels := object{"type": "array", "items": object{"type": "string"}}
	return []tracker.Tool{{
		Name:        "issue_get",
		Description: "Read an issue of this board with its current state, labels, blockers and text.",
		InputSchema: schema(object{"identifier": identifierSchema}),
		Call:        b.get,
	}, {
		Name:        "issue_update",
		Description: "Change an issue of this board: set its state, change its labels, append a comment.",
		InputSchema: schema(object{
			"identifier":    identifierSchema,
			"state":         object{"type": "string", "description": "the new state", "enum": b.States()},
			"labels":        withText(labels, "all labels it shall have"),
			"add_labels":    withText(labels, "labels to add"),
			"remove_labels": withText(labels, "labels to take away"),
			"comment":       object{"type": "string", "description": "Markdown to append, under a heading with the time"},
		}),
		Call: b.update,
	}}
}

var identifierSchema = object{"type": "string", "description": "which issue, like A-1; without it the one you are working on"}

func withText(o object, description string) object {
	return object{"type": o["type"], "items": o["items"], "description": description}
}

func schema(properties object) json.RawMessage {
	// Nothing in it can fail to encode.
	b, _ := wire.Encode(object{"type": "object", "properties": properties, "additionalProperties": false})
	return b
}

// arguments of both tools; issue_get takes the identifier only.
type arguments struct {
	Identifier   *string   `json:"identifier"`
	State        *string   `json:"state"`
	Labels       *[]string `json:"labels"`
	AddLabels    []string  `json:"add_labels"`
	RemoveLabels []string  `json:"remove_labels"`
	Comment      *string   `json:"comment"`
}

// decode reads arguments strictly: an agent that misspells a name has to hear of it.
func decode(raw json.RawMessage, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return tracker.Errorf(tracker.BadArguments, "arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return tracker.Errorf(tracker.BadArguments, "arguments: more than one JSON value")
	}
	return nil
}

func (b *Board) get(ctx context.Context, call tracker.Call) (wire.Record, error) {
	var args struct {
		Identifier *string `json:"identifier"`
	}
	if err := decode(call.Args, &args); err != nil {
		return nil, err
	}
	key, err := which(args.Identifier, call)
	if err != nil {
		return nil, err
	}
	return b.one(ctx, key)
}

// which returns the identifier of the issue that a call is about.
func which(named *string, call tracker.Call) (string, error) {
	if named == nil {
		key, err := call.Current()
		if err != nil {
			return "", err
		}
		named = &key
	}
	key := strings.TrimSpace(*named)
	if key == "" || hidden(key) || strings.ContainsAny(key, "/\\\x00") {
		return "", tracker.Errorf(tracker.BadArguments, "identifier %q does not name a card of this board", *named)
	}
	return key, nil
}

func (b *Board) one(ctx context.Context, key string) (*wire.Issue, error) {
	s, err := b.scan(ctx)
	if err != nil {
		return nil, err
	}
	if issue := s.byKey(key); issue != nil {
		return issue, nil
	}
	for _, broken := range s.broken {
		if tracker.Fold(broken.file) == tracker.Fold(key+suffix) {
			return nil, broken.problem
		}
	}
	return nil, fmt.Errorf("no issue %q on this board", key)
}

func (b *Board) update(ctx context.Context, call tracker.Call) (wire.Record, error) {
	var args arguments
	if err := decode(call.Args, &args); err != nil {
		return nil, err
	}
	ch, err := b.plan(args)
	if err != nil {
		return nil, err
	}
	key, err := which(args.Identifier, call)
	if err != nil {
		return nil, err
	}
	root, err := b.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	unlock, err := lock(ctx, root)
	if err != nil {
		return nil, err
	}
	defer unlock()
	tidy(root)
	issue, err := b.one(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := b.write(root, issue, args, ch); err != nil {
		return nil, err
	}
	return b.one(ctx, issue.Identifier)
}

// plan checks the arguments that can be checked without the card.
func (b *Board) plan(args arguments) (change, error) {
	ch := change{now: b.now().UTC().Format(time.RFC3339)}
	if args.State != nil {
		known := b.States()
		at := slices.IndexFunc(known, func(n string) bool { return tracker.Fold(n) == tracker.Fold(*args.State) })
		if at < 0 {
			return ch, fmt.Errorf("state %q is not one of %s", *args.State, strings.Join(known, ", "))
		}
		ch.state = known[at]
	}
	if args.Labels != nil && (args.AddLabels != nil || args.RemoveLabels != nil) {
		return ch, tracker.Errorf(tracker.BadArguments, "arguments: labels is the whole list; it excludes add_labels and remove_labels")
	}
	if args.Comment != nil {
		if ch.comment = strings.TrimSpace(*args.Comment); ch.comment == "" {
			return ch, tracker.Errorf(tracker.BadArguments, "arguments: comment is blank")
		}
	}
	ch.relabel = args.Labels != nil || len(args.AddLabels)+len(args.RemoveLabels) > 0
	if ch.state == "" && ch.comment == "" && !ch.relabel {
		return ch, tracker.Errorf(tracker.BadArguments, "arguments: nothing to change: give state, labels, add_labels, remove_labels or comment")
	}
	return ch, nil
}

// write changes the file of issue. It runs under the lock.
func (b *Board) write(root *os.Root, issue *wire.Issue, args arguments, ch change) error {
	name := issue.Identifier + suffix
	data, _, err := readFile(root, name)
	if err != nil {
		return b.problem(name, err)
	}
	if ch.relabel {
		ch.labels = relabel(issue.Labels, args)
	}
	if tracker.Fold(issue.State) == tracker.Fold(ch.state) {
		ch.state = "" // it is there already, in the author's spelling
	}
	changed, err := ch.apply(data)
	if err != nil {
		return b.problem(name, err)
	}
	if bytes.Equal(changed, data) {
		return nil
	}
	return b.replace(name, changed)
}

// relabel returns the labels after a change. A label that is both added and taken
// away is taken away.
func relabel(now []string, args arguments) []string {
	want := slices.Concat(now, args.AddLabels)
	if args.Labels != nil {
		want = *args.Labels
	}
	return slices.DeleteFunc(tracker.Labels(want), func(l string) bool {
		return tracker.Contains(args.RemoveLabels, l)
	})
}
