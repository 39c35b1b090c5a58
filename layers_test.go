package ostoolkit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

const module = "ostoolkit"

// layers holds every package, lowest first: one may import those of the rows above
// its own and none of its own row.
var layers = [][]string{
	{"internal/cli"},
	{"internal/wire"},
	{"internal/state", "internal/watch", "internal/proc"},
	{"internal/workflow", "internal/mailbox", "internal/tracker", "internal/approval", "internal/budget", "internal/toolbox",
		"internal/codex/schema", "internal/openhands/spawn"},
	{"internal/tracker/remote", "internal/tracker/trackertest"},
	{"internal/workspace", "internal/schedule", "internal/session", "internal/tracker/folder", "internal/tracker/linear",
		"internal/tracker/github", "internal/tracker/gitlab", "internal/tracker/jira", "internal/tracker/asana",
		"internal/tracker/execcmd"},
	{"internal/codex", "internal/codex/rehearse", "internal/openhands", "internal/run", "internal/loop"},
	{"internal/harness"},
	{"internal/command/poll", "internal/command/workspace", "internal/command/codex", "internal/command/openhands",
		"internal/command/loop"},
	{"cmd/os-poll", "cmd/os-workspace", "cmd/os-codex", "cmd/os-openhands", "cmd/os-loop"},
}

// apart are the packages beside the layers, with all that they import of ours.
var apart = map[string][]string{
	"":                  nil, // the tests of this folder import what they like
	"internal/peertest": {"internal/cli"},
	"bench":             {"internal/cli", "internal/wire", "internal/workflow", "internal/schedule", "internal/peertest"},
}

// narrow are packages that may import less than their layer allows.
var narrow = map[string][]string{
	"internal/schedule": {"internal/cli", "internal/wire", "internal/workflow"},
	"internal/proc":     {},
}

// homes says which packages may import a module that is not ours, and parts of the
// standard library that have one owner. A name ending in "/" is all below it.
var homes = map[string][]string{
	"github.com/spf13/pflag":       {"internal/cli", "internal/harness", "internal/command/"},
	"github.com/tidwall/gjson":     {"internal/codex", "internal/codex/", "internal/openhands"},
	"github.com/fsnotify/fsnotify": {"internal/watch"},
	"github.com/google/shlex": {"internal/codex", "internal/codex/", "internal/toolbox", "internal/workflow", "internal/session",
		"internal/run", "internal/loop", "internal/tracker/execcmd", "internal/command/"},
	"github.com/google/renameio":  {"internal/state", "internal/tracker/folder"},
	"github.com/osteele/liquid":   {"internal/workflow"},
	"github.com/osteele/tuesday":  {"internal/workflow"}, // what liquid formats dates with
	"github.com/goccy/go-yaml":    {"internal/workflow", "internal/tracker/folder"},
	"github.com/coder/websocket":  {"internal/codex", "internal/openhands", "internal/peertest", "bench"},
	"github.com/cenkalti/backoff": {"internal/codex", "internal/tracker", "internal/tracker/", "internal/openhands", "internal/command/poll"},
	"golang.org/x/sys": {"internal/cli", "internal/proc", "internal/state", "internal/watch", "internal/run", "internal/session",
		"internal/codex", "internal/workspace", "internal/tracker/folder", "bench"},
	"github.com/mattn/go-runewidth": {"internal/command/loop"},
	"golang.org/x/term":             {"internal/cli", "internal/harness", "internal/command/"},
	"golang.org/x/oauth2":           {"internal/tracker/"},
	"github.com/vektah/gqlparser":   {"internal/tracker/linear", "internal/peertest"},
	"os/signal":                     {"internal/cli"},
	"os/exec":                       {"internal/peertest", "bench"}, // children are internal/proc's
	"log":                           {},
}

// testOnly are the modules of tests, on top of those above.
var testOnly = []string{
	"github.com/rogpeppe/go-internal", "go.uber.org/goleak", "pgregory.net/rapid",
	"github.com/santhosh-tekuri/jsonschema", // compiles its meta-schemas at start, 9 ms
}

// listed is what `go list -json` tells of a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func (p *listed) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestLayers(t *testing.T) {
	for _, p := range listPackages(t) {
		own := layerOf(p.path())
		beside, isApart := apart[p.path()]
		if own < 0 && !isApart {
			t.Errorf("package %q is in no layer", p.path())
			continue
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !ours:
			case isApart && !slices.Contains(beside, target), !isApart && (layerOf(target) >= own || layerOf(target) < 0):
				t.Errorf("%s must not import %s", p.path(), target)
			}
			if few, ok := narrow[p.path()]; ok && ours && !slices.Contains(few, target) {
				t.Errorf("%s must not import %s: it is to stand alone", p.path(), target)
			}
		}
	}
}

func layerOf(path string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, path) })
}

func TestHomes(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			name, known := homeName(imported)
			switch {
			case !known && foreign(imported):
				t.Errorf("%s imports %s, which has no home in the table", p.path(), imported)
			case known && !isHome(homes[name], p.path()):
				t.Errorf("%s imports %s, whose home is in %q", p.path(), imported, homes[name])
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			_, known := homeName(imported)
			of := func(module string) bool { return under(imported, module) }
			if foreign(imported) && !known && !slices.ContainsFunc(testOnly, of) {
				t.Errorf("tests of %s import %s, which is in no table", p.path(), imported)
			}
		}
	}
}

func homeName(imported string) (string, bool) {
	for name := range homes {
		if under(imported, name) {
			return name, true
		}
	}
	return "", false
}

// under reports whether a package is a module or below it, or below a later major
// version of it; of the standard library only the very package counts.
func under(imported, name string) bool {
	return imported == name || foreign(name) && strings.HasPrefix(imported, name+"/")
}

func isHome(list []string, path string) bool {
	return slices.ContainsFunc(list, func(home string) bool {
		return path == home || strings.HasSuffix(home, "/") && strings.HasPrefix(path, home)
	})
}

// foreign reports whether an import path is of some other module.
func foreign(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}

// banned are the calls that have one place or none.
var banned = map[string]func(file string) bool{
	"time.Sleep":    func(file string) bool { return !strings.HasSuffix(file, "_test.go") },
	"signal.Notify": func(file string) bool { return strings.HasPrefix(file, "internal/cli/") },
	"os.Exit": func(file string) bool {
		return strings.HasPrefix(file, "cmd/") || file == "bench/main.go" || strings.HasSuffix(file, "_test.go")
	},
	"log.Fatal":   func(string) bool { return false },
	"log.Fatalf":  func(string) bool { return false },
	"log.Fatalln": func(string) bool { return false },
}

func TestBannedCalls(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
				t.Errorf("%s: init", files.Position(fn.Pos()))
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if name := selector(sel); name != "" && !banned[name](path) {
					t.Errorf("%s: %s", files.Position(sel.Pos()), name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// selector returns the name of a banned function, or "".
func selector(sel *ast.SelectorExpr) string {
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	name := pkg.Name + "." + sel.Sel.Name
	if banned[name] == nil {
		return ""
	}
	return name
}

var (
	flagName  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
	flagLine  = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z][a-z0-9-]*)`)
	verbLine  = regexp.MustCompile(`(?m)^  ([a-z][a-z ]*?)  +\S`)
	troffDash = strings.NewReplacer("Fl -", "--", `Fl \-`, "--", `\-`, "-", `\(hy`, "-")
)

// Every flag of every help is named in the command's manual page.
func TestManualNamesFlags(t *testing.T) {
	for name, main := range products {
		page, err := os.ReadFile(filepath.Join("doc", name+".1"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		text := troffDash.Replace(string(page))
		named := flagName.FindAllString(text, -1)
		for _, verb := range append(verbs(help(t, main)), "") {
			for _, m := range flagLine.FindAllStringSubmatch(section(help(t, main, strings.Fields(verb)...), "FLAGS"), -1) {
				if !slices.Contains(named, m[1]) {
					t.Errorf("doc/%s.1 does not name %s of %q", name, m[1], strings.TrimSpace(name+" "+verb))
				}
			}
		}
	}
}

// help runs `command verb --help` in this process.
func help(t *testing.T, main func(*cli.Env) int, verb ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	env := &cli.Env{
		Args: append(slices.Clone(verb), "--help"), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: []string{"HOME=" + t.TempDir()}, Dir: t.TempDir(), Now: time.Now, Rand: strings.NewReader(""),
	}
	if status := main(env); status != cli.StatusOK {
		t.Errorf("%q --help ends with %d: %s", verb, status, errs.String())
	}
	return out.String()
}

func verbs(help string) []string {
	var names []string
	for _, m := range verbLine.FindAllStringSubmatch(section(help, "VERBS"), -1) {
		names = append(names, m[1])
	}
	return names
}

// section returns the lines below a heading of a help text.
func section(help, heading string) string {
	_, rest, _ := strings.Cut(help, fmt.Sprintf("\n%s\n", heading))
	body, _, _ := strings.Cut(rest, "\n\n")
	return body
}
