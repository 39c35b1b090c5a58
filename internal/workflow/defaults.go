package workflow

// DefaultActive returns the active states of a board that names none: those of the
// folder board and of Linear.
func DefaultActive() []string { return []string{"Todo", "In Progress"} }

// DefaultTerminal returns the terminal states of such a board.
func DefaultTerminal() []string {
	return []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"}
}
