// Command os-loop is the scheduler: it composes the other commands.
package main

import (
	"os"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/loop"
)

func main() { os.Exit(loop.Main(cli.System())) }
