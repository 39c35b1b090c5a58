// Package openhands drives one conversation of an OpenHands agent-server: it opens or
// resumes the conversation over REST, follows it over a socket, turns what happens into
// the events and the outcome of internal/wire, and, where it has started the server
// itself, ends that again.
//
// Frames of the peer stay in here. It reads no flags, renders no prompt, asks no
// tracker and owns no run. A session belongs to one goroutine, which waits for frames,
// answers, timers and requests to stop in one select; the goroutines beside it make
// single requests and read the socket, and all have ended when Run returns.
package openhands

import (
	"context"
	"io"

	"ostoolkit/internal/openhands/spawn"
	"ostoolkit/internal/session"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// Harness is the name of this harness in routes and in conversation.json.
const Harness = "openhands"

// contract names the protocol that a recorded conversation can be resumed with.
const contract = "openhands-agent-server-v1"

// Values of session.Ending.FinishedBy for a success, besides those of session.
const finishedByMessage = "message" // the agent said something and called no finish tool

// Config is one session.
type Config struct {
	session.Config

	Server Server
	Agent  Agent
	Tools  *toolbox.Box // host-side; nil: none
	Rand   io.Reader    // of ids
	// Notes returns the newest notes that the agent has left at the issue, "" for none,
	// for a conversation that stands in for a lost one; nil: there is nobody to ask.
	Notes func(context.Context) (string, error)
}

// Server says where the agent-server is. Its key never reaches a disk.
type Server struct {
	URL string // http or https, with a path or without; "" with Spawn
	Key string // "": none is needed
	// KeyEnv is the variable that Key was taken from.
	KeyEnv string
	// Spawn starts a server of our own, or joins it; nil: URL is somebody else's.
	Spawn *spawn.Config
}

// Agent is how a conversation is made. Empty members are left to the server.
type Agent struct {
	Model         string // as litellm names it, such as openai/gpt-5.4
	LLM           map[string]any
	Key           string // of the model's provider
	KeyEnv        string // the variable that Key was taken from
	Tools         []string
	MaxIterations int
	Stuck         bool           // the server looks for an agent that goes round in circles
	Confirm       string         // never, always, risky
	Reuse         string         // session.ReusePerIssue, session.ReuseNever
	Condenser     map[string]any // nil: none
}

// Run makes one session and returns its outcome, which has been written already.
// Cancelling ctx is a polite stop.
func Run(ctx context.Context, cfg Config) (*wire.Outcome, error) {
	d := newDriver(ctx, cfg)
	defer d.release()
	end := d.session(ctx)
	d.shutdown(end)
	return d.conclude(end)
}

// DryRun says what a session would do and makes nothing.
func DryRun(cfg Config) (*wire.Outcome, error) {
	return session.DryRun(cfg.Place, cfg.Emitter, cfg.planned(), cfg.Now())
}

func (c *Config) planned() *wire.Session {
	effort, _ := c.Agent.LLM["reasoning_effort"].(string)
	return &wire.Session{
		Route:          c.Route,
		Model:          wire.Text(c.Agent.Model),
		Effort:         wire.Text(effort),
		Cwd:            c.Place.Workspace.Path,
		ApprovalPolicy: wire.Text(c.Agent.Confirm),
		Peer:           &wire.Peer{Name: Harness},
	}
}

// launch is what conversation.json tells of how the conversation was made.
func (c *Config) launch() *session.Launch {
	l := &session.Launch{Model: wire.Text(c.Agent.Model)}
	if c.Agent.Key != "" {
		l.ModelKeyEnv = wire.Text(c.Agent.KeyEnv)
	}
	if c.Server.Key != "" {
		l.ServerKeyEnv = wire.Text(c.Server.KeyEnv)
	}
	return l
}

// secrets are the values that nothing which is written down may show.
func (c *Config) secrets() []string { return []string{c.Server.Key, c.Agent.Key} }
