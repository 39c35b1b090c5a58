package session

// Halt keeps the requests that asked for the end of the running turn, until it is known
// what became of it. It belongs to its session's goroutine.
type Halt struct {
	// End is how the run ends where no text waits to start the next turn; nil while
	// nobody asked.
	End *Ending

	letters []*Letter
}

// Add takes one more request, which is on its way to the peer.
func (h *Halt) Add(in *Inbox, l *Letter) {
	h.letters, h.End = append(h.letters, l), l.Ending()
	in.Sent(l)
}

// Accept answers the requests: the peer ends that turn.
func (h *Halt) Accept(in *Inbox, turn string) {
	for _, l := range h.letters {
		in.Accepted(l, turn)
	}
	h.letters = nil
}

// Refuse answers the requests: the turn goes on, or has ended by itself.
func (h *Halt) Refuse(in *Inbox, reason string) {
	for _, l := range h.letters {
		in.Refused(l, reason)
	}
	h.letters, h.End = nil, nil
}

// Ended settles the requests at the end of the turn, whose answer may come later.
func (h *Halt) Ended(in *Inbox, turn string, interrupted bool) {
	if interrupted {
		h.Accept(in, turn)
		return
	}
	h.Refuse(in, "the turn ended by itself")
}
