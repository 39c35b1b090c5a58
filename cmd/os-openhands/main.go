// Command os-openhands drives one conversation of an OpenHands agent-server.
package main

import (
	"os"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/openhands"
)

func main() { os.Exit(openhands.Main(cli.System())) }
