// Command os-poll reads a tracker and prints its issues; see os-poll(1).
package main

import (
	"os"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/poll"
)

func main() { os.Exit(poll.Main(cli.System())) }
