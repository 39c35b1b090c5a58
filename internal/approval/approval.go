// Package approval decides who answers an agent that asks for leave, and what, where
// nobody is asked. It is pure: it sends nothing and waits for nothing.
package approval

import (
	"fmt"
	"slices"
)

// Policy says who answers.
type Policy string

// The policies.
const (
	// ByPolicy declines and lets the session go on; a question that only a person
	// can answer ends the run as input_required.
	ByPolicy Policy = "policy"
	// Accept grants what is asked for once, if that is on offer, and never for the
	// rest of the session.
	Accept Policy = "accept"
	// Decline declines everything, questions too.
	Decline Policy = "decline"
	// Mailbox leaves every answer to whoever sends one through the mailbox in time.
	Mailbox Policy = "mailbox"
)

// What becomes of something that was asked for.
const (
	Pending   = "pending"
	Accepted  = "accepted"
	Declined  = "declined"
	Cancelled = "cancelled"
	TimedOut  = "timed_out"
	Withdrawn = "withdrawn" // its turn ended, or the peer does not wait any more
)

// Parse returns the policy with this name.
func Parse(name string) (Policy, error) {
	p := Policy(name)
	if !slices.Contains([]Policy{ByPolicy, Accept, Decline, Mailbox}, p) {
		return "", fmt.Errorf("approvals %q is none of policy, accept, decline, mailbox", name)
	}
	return p, nil
}

// Grant reports whether p answers with grant, the peer's word for "yes, this once".
// offered lists the answers that the peer names; nil means that it names none and
// takes any.
func (p Policy) Grant(grant string, offered []string) bool {
	return p == Accept && (offered == nil || slices.Contains(offered, grant))
}

// Dismisses reports whether a question to a person is answered with a refusal, so
// that the session goes on, instead of ending the run.
func (p Policy) Dismisses() bool { return p == Decline }
