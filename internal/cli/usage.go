package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"
)

// Usage is the text of one command's or one verb's --help, apart from its flags,
// which come from the flag set itself so that the two cannot drift apart.
type Usage struct {
	Name     string         // "os-poll" or "os-poll tool"
	Synopsis []string       // what follows the name, one form a line
	About    string         // a few lines, wrapped by hand
	Verbs    [][2]string    // verb and what it does
	Examples string         // lines to type, with their output where it helps
	Statuses []int          // the exit statuses it uses, in order
	Notes    map[int]string // a meaning of its own for a status
}

// Output is what --help and --version ask for: a text for stdout and status 0.
// It travels as an error so that parsing stays a pure function.
type Output struct{ Text string }

func (o *Output) Error() string { return o.Text }

// Flags returns an empty flag set for u, in the order in which flags are added.
func (u *Usage) Flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet(u.Name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}
	return fs
}

// Parse adds --help and --version to fs, parses args and returns what is left.
// Errors are usage errors that name the flag; help and version are an *Output.
func (u *Usage) Parse(fs *pflag.FlagSet, args []string) ([]string, error) {
	help := fs.BoolP("help", "h", false, "print this help and exit")
	version := fs.Bool("version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, &Output{u.Help(fs)}
		}
		return nil, WithHint(Usagef("%v", err), "%s --help", u.Name)
	}
	switch {
	case *help:
		return nil, &Output{u.Help(fs)}
	case *version:
		return nil, &Output{strings.Fields(u.Name)[0] + " " + Version() + "\n"}
	}
	return fs.Args(), nil
}

// Help renders the whole help text.
func (u *Usage) Help(fs *pflag.FlagSet) string {
	var b strings.Builder
	for i, s := range u.Synopsis {
		lead := "usage: "
		if i > 0 {
			lead = "       "
		}
		b.WriteString(strings.TrimRight(lead+u.Name+" "+s, " ") + "\n")
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(u.About))
	if len(u.Verbs) > 0 {
		b.WriteString("\nVERBS\n")
		for _, v := range u.Verbs {
			fmt.Fprintf(&b, "  %-12s %s\n", v[0], v[1])
		}
	}
	if fs.HasFlags() {
		fmt.Fprintf(&b, "\nFLAGS\n%s", flags(fs))
	}
	if u.Examples != "" {
		fmt.Fprintf(&b, "\nEXAMPLES\n%s\n", indent(u.Examples))
	}
	b.WriteString("\nEXIT STATUS\n")
	for _, s := range u.Statuses {
		meaning := statusMeaning[s]
		if own, ok := u.Notes[s]; ok {
			meaning = own
		}
		fmt.Fprintf(&b, "  %-4d %s\n", s, meaning)
	}
	return b.String()
}

// flags is pflag's own table without the "[=true|false]" that it puts behind every
// switch; the column stays as wide as it was.
func flags(fs *pflag.FlagSet) string {
	const noise = "[=true|false]"
	return strings.ReplaceAll(fs.FlagUsagesWrapped(100), noise, strings.Repeat(" ", len(noise)))
}

func indent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ")
}

// version is set by packagers with -ldflags "-X ostoolkit/internal/cli.version=1.2".
var version string

// Version returns the version of the running binary, from its build information.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + dirty
}
