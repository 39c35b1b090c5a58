// Command os-codex drives one session of a Codex app-server; see os-codex(1).
package main

import (
	"os"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/codex"
)

func main() { os.Exit(codex.Main(cli.System())) }
