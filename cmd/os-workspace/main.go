// Command os-workspace prepares, supervises, finds and removes per-issue folders.
// It reads issue records on its standard input and prints workspace or outcome records; see
// os-workspace(1).
package main

import (
	"os"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/workspace"
)

func main() { os.Exit(workspace.Main(cli.System())) }
