package session

import (
	"fmt"

	"ostoolkit/internal/wire"
)

// CodeBudget is the code of the warning that a budget gives.
const CodeBudget = "budget"

// softShare is the part of a budget, in percent, from which a run is warned.
const softShare = 80

// Budget bounds what one run may use. It judges the run's own share of a session, so
// that a session that goes on over many runs does not use up the budget of the next.
type Budget struct {
	// Tokens is the most that the run may use in all, cached input included; 0 is no
	// limit.
	Tokens int64

	warned bool
}

// Spend takes what the run has used so far, nil or a nil total where that is not
// known. It returns the warning that is due, once in a run, or "", and the ending of a
// run that has used its budget up, or nil.
func (b *Budget) Spend(own *wire.Usage) (warning string, end *Ending) {
	if b.Tokens <= 0 || own == nil || own.TotalTokens == nil {
		return "", nil
	}
	used := *own.TotalTokens
	if used >= b.Tokens {
		return "", &Ending{
			Outcome: wire.BudgetExceeded, Category: wire.BudgetExceeded,
			Message: fmt.Sprintf("the run has used %d tokens, its budget is %d", used, b.Tokens),
		}
	}
	// used*100 would overflow for a budget that is meant as no limit.
	if b.warned || float64(used) < float64(b.Tokens)*softShare/100 {
		return "", nil
	}
	b.warned = true
	return fmt.Sprintf("the run has used %d of its %d tokens", used, b.Tokens), nil
}
