package openhands

import (
	"context"
	"slices"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// Facts are what a server tells of itself.
type Facts struct {
	Version string
	Locked  error    // why it does not take the key; nil: it does
	Tools   []string // nil: it does not tell
}

// Missing returns those of the tools that the server does not have.
func (f *Facts) Missing(tools []string) []string {
	if f.Tools == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return slices.Contains(f.Tools, name) })
}

// Probe asks a server that runs. The error is the *session.Ending that a session would
// get.
func Probe(ctx context.Context, s Server) (*Facts, error) {
	c, err := newClient(s, nil, newRedactor([]string{s.Key}))
	if err != nil {
		return nil, err
	}
	defer c.close()
	info, err := c.do(ctx, requestInfo())
	if err != nil {
		return nil, endingOf(err)
	}
	facts := &Facts{Version: info.Get("version").Str}
	if facts.Version == "" {
		return nil, notServer(s.URL)
	}
	for _, tool := range info.Get("usable_tools").Array() {
		facts.Tools = append(facts.Tools, tool.Str)
	}
	if _, err := c.do(ctx, requestLogin()); err != nil {
		facts.Locked = endingOf(err)
	}
	return facts, nil
}

// notServer is the ending where something else listens.
func notServer(url string) *session.Ending {
	return session.Failf(wire.CauseProtocol, "what answers at %s does not say that it is an agent-server", url)
}
