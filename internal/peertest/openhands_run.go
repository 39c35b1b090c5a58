package peertest

import (
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"
)

// openHandsRun is a run that goes on, in a goroutine of its own.
type openHandsRun struct {
	c     *openHandsConv
	ctx   context.Context // ends by an interrupt, and with the server
	epoch int
	users int // messages before it
	asked int // requests before it, or before what it has waited for
}

func (r *openHandsRun) steps(steps []openHandsStep) {
	c := r.c
	for i, st := range steps {
		if !r.waits(st) {
			c.s.mu.Lock()
			if r.void() {
				c.s.mu.Unlock()
				return
			}
			if r.ctx.Err() == nil {
				c.step(st)
			}
			c.s.mu.Unlock()
			d, _ := time.ParseDuration(st.arg) // it was tried when it was read
			switch st.op {
			case "crash":
				c.s.crash(d)
				return
			case "unreachable":
				c.s.unreachable(d)
			}
		}
		if r.ended(steps[i+1:]) {
			return
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if r.void() {
		return
	}
	if c.status == "running" {
		c.setStatus("finished")
	}
	r.settle()
}

func (r *openHandsRun) void() bool { return r.epoch != r.c.epoch }

// ended deals with what has ended the run early: an interrupt, a pause, a question.
func (r *openHandsRun) ended(rest []openHandsStep) bool {
	c := r.c
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch {
	case r.void():
		return true
	case r.ctx.Err() != nil:
		if c.action != nil {
			c.openHandsError("Tool call interrupted before completion. The conversation was paused.")
		}
		c.toolEnds()
		c.setStatus("paused")
		c.add(true, "user", "InterruptEvent", nil)
		c.fullState()
	case c.waiting:
		if rest == nil {
			rest = []openHandsStep{}
		}
		c.rest = rest
	case !c.pausing || c.tool != nil:
		return false
	}
	r.settle()
	return true
}

// settle ends the run. It runs under the lock.
func (r *openHandsRun) settle() {
	c := r.c
	c.running, c.over, c.pausing = false, false, false
	if c.final {
		c.fullState()
	}
	if again := c.again && !c.s.script.stranding; again {
		c.again = false
		c.status = "idle"
		c.start()
	}
}

// waits carries out a step that takes its time, without the lock, and reports whether
// it was one.
func (r *openHandsRun) waits(st openHandsStep) bool {
	switch st.op {
	case "sleep", "tail":
		d, _ := time.ParseDuration(st.arg) // it was tried when it was read
		if st.op == "tail" {
			r.tail()
		}
		r.until(d, func() bool { return false })
	case "hang":
		r.until(time.Hour, func() bool { return false })
	case "wait":
		r.until(time.Hour, r.arrived(st.arg))
	case "many":
		r.many(st)
	default:
		return false
	}
	return true
}

// tail gives the run its end, while it is still cleaned up.
func (r *openHandsRun) tail() {
	c := r.c
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.status == "running" && !r.void() {
		c.setStatus("finished")
	}
	c.over = true
}

// arrived returns the question whether that is there which a wait is for.
func (r *openHandsRun) arrived(what string) func() bool {
	s := r.c.s
	if what == "message" {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return r.c.users > r.users
		}
	}
	if method, glob, ok := requestOf(what); ok {
		return func() bool { return r.requested(method, glob) }
	}
	return func() bool { return s.exists(what) }
}

// requested looks for a request that nobody has waited for yet.
func (r *openHandsRun) requested(method, glob string) bool {
	s := r.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.asked < len(s.asked) {
		had, urlPath, _ := strings.Cut(s.asked[r.asked], " ")
		r.asked++
		if ok, _ := path.Match(glob, urlPath); ok && had == method { // the pattern was tried when it was read
			return true
		}
	}
	return false
}

func (r *openHandsRun) until(limit time.Duration, done func() bool) {
	over := time.NewTimer(limit)
	defer over.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-over.C:
			return
		case <-look.C:
		case <-r.ctx.Done():
			return
		}
	}
}

// many adds one event after the other, so that others get the lock in between.
func (r *openHandsRun) many(st openHandsStep) {
	n, event, _ := twoWords(st)
	members := map[string]any{}
	_ = json.Unmarshal([]byte(event), &members) // it was tried when it was read
	for range n {
		r.c.s.mu.Lock()
		if r.ctx.Err() == nil && !r.void() {
			r.c.add(true, "agent", "", members)
		}
		r.c.s.mu.Unlock()
	}
}
