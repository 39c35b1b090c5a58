package session

// Halt keeps the requests that asked for the end of the running turn, until it is known
// what became of it. It belongs to its session's goroutine.
type Halt struct {
	Wanted  bool // the end is asked for
	Sent    bool // and the peer was told; once, unless it could not do it yet
	Granted bool // the peer does it
	// End is how the run ends where no text waits to start the next turn; nil while
	// nobody asked.
	End *Ending

	letters []*Letter
}

// Take takes one more request for the end of the turn with that id. active says that it
// runs; tell asks the peer, if that has not been done.
func (h *Halt) Take(in *Inbox, l *Letter, active bool, turn string, tell func()) {
	if !active {
		in.Refused(l, "no turn runs")
		return
	}
	h.letters, h.End = append(h.letters, l), l.Ending()
	in.Sent(l)
	if tell(); h.Granted {
		h.Accept(in, turn)
	}
}

// Accept answers the requests: the peer ends that turn.
func (h *Halt) Accept(in *Inbox, turn string) {
	for _, l := range h.letters {
		in.Accepted(l, turn)
	}
	h.letters = nil
}

// Refuse answers the requests: the turn goes on as if nobody had asked, or has ended by
// itself.
func (h *Halt) Refuse(in *Inbox, reason string) {
	for _, l := range h.letters {
		in.Refused(l, reason)
	}
	h.letters, h.End = nil, nil
	h.Wanted, h.Sent = false, false
}

// Ended settles the requests at the end of the turn, whose answer may come later.
func (h *Halt) Ended(in *Inbox, turn string, interrupted bool) {
	if interrupted {
		h.Accept(in, turn)
		return
	}
	h.Refuse(in, "the turn ended by itself")
}
