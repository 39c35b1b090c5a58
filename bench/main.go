// Command bench measures what the toolkit costs and prints it beside what it is
// measured by: go run ./bench [-only NAME] [-quick].
//
// It builds the five commands, the programs that they are compared with and all
// folders below one temporary folder, which it removes. What is compared runs in
// turn, round after round, and medians are told, so that another load on the machine
// hits both sides. It is no test: a figure over its goal is printed as that, and the
// exit status tells only whether everything could be measured. Nothing here is for
// concurrent use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/peertest"
)

func main() {
	env := cli.System()
	if main := standInMain(env); main != nil {
		os.Exit(main(env))
	}
	os.Exit(cli.Main("bench", env, run))
}

// standIn is the verb that makes this program an app-server.
const standIn = "appserver"

// standInMain returns the program that this one is to be in place of the bench, if it is:
// the stand-ins are this very program. The verb is taken off.
func standInMain(env *cli.Env) func(*cli.Env) int {
	if len(env.Args) == 0 {
		return nil
	}
	main := map[string]func(*cli.Env) int{
		standIn: peertest.AppServerMain, steerServer: steerServerMain,
		agentServer: agentServerMain, agentClient: agentClientMain,
	}[env.Args[0]]
	if main != nil {
		env.Args = env.Args[1:]
	}
	return main
}

// measure is one part of the table. Its rows are printed as soon as they are there.
type measure struct {
	name string
	run  func(context.Context, *rig) ([]row, error)
}

// measures are in the order in which they are run. The relay comes first: the peak
// of memory that the kernel tells of a child is never below that of its parent at
// the fork, and this program is small only at its beginning.
var measures = []measure{
	{"relay", relay},
	{"oh-relay", agentRelay},
	{"oh-memory", agentMemory},
	{"startup", startup},
	{"steer", steering},
	{"oh-steer", agentSteering},
	{"session", sessions},
	{"oh-session", agentSessions},
	{"workspace", workspaces},
	{"schedule", decisions},
	{"loop", loops},
}

type options struct {
	only  string
	quick bool
}

func parse(args []string) (options, error) {
	var o options
	var text strings.Builder
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(&text)
	fs.Usage = func() {
		_, _ = io.WriteString(&text, "usage: go run ./bench [-only NAME] [-quick]\n\n") // a Builder takes all
		fs.PrintDefaults()
	}
	fs.StringVar(&o.only, "only", "", "measure this alone: "+strings.Join(names(), ", "))
	fs.BoolVar(&o.quick, "quick", false, "a tenth of the work in fewer rounds, for a first look")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return o, &cli.Output{Text: text.String()}
	case err != nil:
		return o, cli.Usagef("%v", err)
	case fs.NArg() > 0:
		return o, cli.Usagef("unexpected argument %q", fs.Arg(0))
	}
	if o.only != "" && len(chosen(o.only)) == 0 {
		return o, cli.Usagef("no measure %q: there are %s", o.only, strings.Join(names(), ", "))
	}
	return o, nil
}

func names() []string {
	var list []string
	for _, m := range measures {
		list = append(list, m.name)
	}
	return list
}

// chosen returns the measure of this name, all for "".
func chosen(only string) []measure {
	var list []measure
	for _, m := range measures {
		if only == "" || m.name == only {
			list = append(list, m)
		}
	}
	return list
}

// run measures all that is asked for. One measure that cannot be taken is told, and
// the others are taken.
func run(ctx context.Context, env *cli.Env) (err error) {
	o, err := parse(env.Args)
	if err != nil {
		return err
	}
	r, err := newRig(ctx, env, o.quick)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := printRows(env.Stdout, heading); err != nil {
		return err
	}
	status := cli.StatusOK
	for _, m := range chosen(o.only) {
		rows, err := m.run(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			env.Errorf("%s: %v", m.name, err)
			status = cli.StatusFailed
		}
		if err := printRows(env.Stdout, rows...); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
	}
	return cli.Exit(status)
}
