package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

// memoryGoal is how far the peak of memory may grow with ten times the frames or more.
const memoryGoal = 1.25

// flat is a row of two peaks in bytes, over so many events each.
func flat(name string, few, many int64, fewEvents, manyEvents int) row {
	grown := ratio(many, few)
	line := row{
		name: fmt.Sprintf("%s, %d", name, manyEvents), measured: megabytes(many),
		reference: fmt.Sprintf("%s at %d", megabytes(few), fewEvents), ratio: fmt.Sprintf("%.2fx", grown),
	}
	return line.within(fmt.Sprintf("<= %.2fx", memoryGoal), grown <= memoryGoal)
}

// lineCounter counts the lines with part that are written to it.
type lineCounter struct {
	part  string
	rest  []byte
	lines int
}

var _ io.Writer = (*lineCounter)(nil)

func (c *lineCounter) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	text := c.rest
	for {
		line, after, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			c.rest = append(c.rest[:0], text...)
			return len(p), nil
		}
		if bytes.Contains(line, []byte(c.part)) {
			c.lines++
		}
		text = after
	}
}

// maxRSS returns the peak of a process that has been waited for, in bytes. That of
// its own children counts too; the stand-in stays below os-codex.
func maxRSS(p *os.ProcessState) int64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin": // bytes there, kilobytes elsewhere
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) << 10
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }
