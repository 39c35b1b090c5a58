package ostoolkit_test

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
)

// jsonq [-count N] FILE [PATH=VALUE]… [PATH WANT]: look into a JSON document or the
// lines of an NDJSON file ("stdout" is the last command's). Of the records in which
// every PATH has its VALUE there must be one, or exactly N; PATH of the last of them
// must be WANT. With ! there must be none, or PATH must be something else.
//
// Paths are gjson's. A value is compared as text, null and true included; "(none)"
// is a member that is not there, and "~REGEXP" a pattern.
func cmdJSONQ(ts *testscript.TestScript, neg bool, args []string) {
	count := -1
	if len(args) > 1 && args[0] == "-count" {
		var err error
		count, err = strconv.Atoi(args[1])
		ts.Check(err)
		args = args[2:]
	}
	if len(args) == 0 {
		ts.Fatalf("usage: [!] jsonq [-count N] file [path=value...] [path want]")
	}
	found, rest := query(ts, args)
	switch {
	case len(rest) != 0 && len(rest) != 2:
		ts.Fatalf("jsonq: %q is not a path and what it should be", rest)
	case count >= 0:
		if (len(found) == count) == neg {
			ts.Fatalf("%d records match %q, want %d", len(found), args, count)
		}
	case len(rest) == 0:
		if (len(found) > 0) == neg {
			ts.Fatalf("%d records match %q", len(found), args)
		}
		return
	case len(found) == 0:
		ts.Fatalf("no record matches %q in\n%s", args[1:], ts.ReadFile(args[0]))
	}
	if len(rest) == 2 && len(found) > 0 {
		got := found[len(found)-1].Get(rest[0])
		if is(ts, got, rest[1]) == neg {
			ts.Fatalf("%s is %s, want %s", rest[0], shown(got), rest[1])
		}
	}
}

// jsonenv NAME FILE [PATH=VALUE]… PATH: set a variable of the script from the last
// record that matches.
func cmdJSONEnv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: jsonenv name file [path=value...] path")
	}
	found, rest := query(ts, args[1:])
	if len(found) == 0 || len(rest) != 1 {
		ts.Fatalf("%d records match %q and one path is wanted, not %q", len(found), args[1:], rest)
	}
	value := found[len(found)-1].Get(rest[0])
	if !value.Exists() {
		ts.Fatalf("no %s in %s", rest[0], found[len(found)-1].Raw)
	}
	ts.Setenv(args[0], shown(value))
}

var filter = regexp.MustCompile(`^([\w.@#-]+)=(.*)$`)

// query returns the records of the file args[0] that pass the filters behind it,
// and the arguments behind those.
func query(ts *testscript.TestScript, args []string) ([]gjson.Result, []string) {
	records, rest := parseRecords(ts, args[0]), args[1:]
	for ; len(rest) > 0; rest = rest[1:] {
		m := filter.FindStringSubmatch(rest[0])
		if m == nil {
			break
		}
		var kept []gjson.Result
		for _, r := range records {
			if is(ts, r.Get(m[1]), m[2]) {
				kept = append(kept, r)
			}
		}
		records = kept
	}
	return records, rest
}

func parseRecords(ts *testscript.TestScript, file string) []gjson.Result {
	text := strings.TrimSpace(ts.ReadFile(file))
	if gjson.Valid(text) {
		return []gjson.Result{gjson.Parse(text)}
	}
	var records []gjson.Result
	for line := range strings.Lines(text) {
		if !gjson.Valid(line) {
			ts.Fatalf("%s: not JSON: %s", file, line)
		}
		records = append(records, gjson.Parse(line))
	}
	return records
}

func is(ts *testscript.TestScript, got gjson.Result, want string) bool {
	if pattern, ok := strings.CutPrefix(want, "~"); ok {
		expr, err := regexp.Compile(pattern)
		ts.Check(err)
		return expr.MatchString(shown(got))
	}
	return shown(got) == want
}

func shown(r gjson.Result) string {
	switch {
	case !r.Exists():
		return "(none)"
	case r.Type == gjson.String:
		return r.Str
	}
	return r.Raw
}
