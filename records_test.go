package ostoolkit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"ostoolkit/internal/cli"
)

// textVerbs are the verbs whose stdout is for people or in a format of its own.
// Everything else that a command prints is a record.
var textVerbs = map[string][]string{
	"os-poll":      {"check", "secrets", "tool"},
	"os-workspace": {"check", "show"},
	"os-codex":     {"check", "rehearse"},
	"os-openhands": {"check"},
	"os-loop": {"check", "status", "send", "stop", "retry", "release", "hold", "clear", "pause", "resume", "refresh", "drain",
		"shutdown"},
}

// printsText reports whether a command line asks for something else than records.
func printsText(name string, args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return len(args) > 0 && slices.Contains(textVerbs[name], args[0])
		case "-h", "--help", "--version":
			return true
		}
	}
	return len(args) > 0 && slices.Contains(textVerbs[name], args[0])
}

// tee copies what is written to stdout. It keeps the file's other methods, since a
// harness asks what its stdout is.
type tee struct {
	*os.File
	out  io.Writer
	copy *os.File
}

func (t tee) Write(p []byte) (int, error) {
	n, err := t.out.Write(p)
	_, copyErr := t.copy.Write(p[:n])
	if err != nil { // its reader has gone, perhaps within a line
		copyErr = cutLine(t.copy)
	}
	if err == nil {
		err = copyErr
	}
	return n, err
}

// cutLine takes away what stands behind the last line of a file.
func cutLine(f *os.File) error {
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	return f.Truncate(int64(1 + bytes.LastIndexByte(text, '\n')))
}

// WriteString and ReadFrom would otherwise be the file's, past the copy.
func (t tee) WriteString(s string) (int, error) { return t.Write([]byte(s)) }

func (t tee) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{t}, r)
}

// record makes env.Stdout copy itself to a file of this process, where a script
// asks for it. The file is closed by the process's end.
func record(name string, env *cli.Env) error {
	dir := env.Getenv(recordsVar)
	if dir == "" || printsText(name, env.Args) {
		return nil
	}
	f, err := os.CreateTemp(dir, name+"-*.ndjson")
	if err != nil {
		return err
	}
	env.Stdout = tee{os.Stdout, env.Stdout, f}
	return nil
}

// checkRecords checks every file of a folder and returns what is wrong.
func checkRecords(dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for _, p := range checkLines(string(text)) {
			problems = append(problems, filepath.Base(file)+": "+p)
		}
	}
	return problems
}

// checkLines checks one stream: whole lines, each JSON, each record of ours as its
// schema says with no member besides, the events of a run numbered without gaps
// and none behind its outcome.
func checkLines(text string) []string {
	if text == "" {
		return nil
	}
	var problems []string
	if !strings.HasSuffix(text, "\n") {
		problems = append(problems, "the last line has no end")
	}
	seq, ended := map[string]int64{}, map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("line %d: %s\n\t%.500s", i+1, fmt.Sprintf(format, args...), line))
		}
		if err := checkRecord(line); err != nil {
			bad("%v", err)
			continue
		}
		rec := gjson.Parse(line)
		run := rec.Get("run_id").String()
		switch rec.Get("type").String() {
		case "event":
			// A stream may begin in the middle of a run.
			if n, last := rec.Get("seq").Int(), seq[run]; last != 0 && n != last+1 {
				bad("seq %d comes after %d", n, last)
			} else if ended[run] {
				bad("an event behind its run's outcome")
			}
			seq[run] = rec.Get("seq").Int()
		case "outcome":
			ended[run] = true
		}
	}
	return problems
}

func checkRecord(line string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return fmt.Errorf("not JSON: %v", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return fmt.Errorf("not a JSON object")
	}
	kind, ok := object["type"].(string)
	if !ok {
		return nil
	}
	all, err := schemas()
	if err != nil {
		return err
	}
	schema, ours := all[kind]
	if !ours {
		return nil
	}
	return schema.Validate(doc)
}

// schemas compiles schema/*.json once, in a strict form in which a member that
// the schema does not name is an error: a reader must ignore it, the tests want to
// hear of it.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join("schema", "*.json"))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("%s: %v", file, err)
		}
		strict(doc, true)
		if err := c.AddResource(schemaURL(file), doc); err != nil {
			return nil, err
		}
	}
	compiled := map[string]*jsonschema.Schema{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if compiled[name], err = c.Compile(schemaURL(file)); err != nil {
			return nil, err
		}
	}
	return compiled, nil
})

func schemaURL(file string) string { return "file:///schema/" + filepath.Base(file) }

// strict closes every object of a schema, at the places where a value is described
// and not in the definitions, since two records may add to the same one.
func strict(node any, place bool) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	if place && (schema["properties"] != nil || schema["$ref"] != nil) {
		schema["unevaluatedProperties"] = false
	}
	for keyword, at := range map[string]bool{"properties": true, "$defs": false} {
		members, _ := schema[keyword].(map[string]any)
		for _, member := range members {
			strict(member, at)
		}
	}
	strict(schema["items"], true)
	strict(schema["then"], false)
	for keyword, at := range map[string]bool{"oneOf": true, "allOf": false} {
		members, _ := schema[keyword].([]any)
		for _, member := range members {
			strict(member, at)
		}
	}
}
