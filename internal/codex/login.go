package codex

import (
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// loginLimit bounds the wait for the word on the login.
const loginLimit = 5 * time.Second

// login is what we know of the login of a session that does nothing but retry. The
// server goes on for ever without one, and never says that this is the cause.
type login struct {
	retried bool          // the server has retried
	asked   bool          // once a session
	due     time.Duration // by the session's clock; 0: no stall has come yet
	told    bool          // there is a login, or none is needed, or nobody knows
}

// retries notes that the server tries something again. unauthorized means that the
// provider did not know us: no stall has to be waited for then.
func (d *driver) retries(unauthorized bool) {
	d.login.retried = true
	if unauthorized {
		d.askLogin()
	}
}

// askLogin asks the server once whether a login is missing, which ends the session.
func (d *driver) askLogin() {
	if d.login.asked {
		return
	}
	d.login.asked = true
	c := d.send(methodAccountRead, accountParams())
	c.then = func(account gjson.Result, err error) {
		d.login.told = true
		if err == nil && loginMissing(account) {
			d.Fail(session.Failf(wire.CauseAuth, "codex is not logged in"))
		}
	}
}

// doubtLogin reports whether a stall is to wait for the word on the login. Only a
// session that has retried asks; one that is silent would not answer either.
func (d *driver) doubtLogin(end *session.Ending) bool {
	l := &d.login
	if end.Outcome != wire.Stalled || !l.retried || l.told {
		return false
	}
	d.askLogin()
	now := d.Clocks.Elapsed()
	if l.due == 0 {
		l.due = now + loginLimit
	}
	return now < l.due
}

// accountParams asks for what is known without the network.
func accountParams() map[string]any { return map[string]any{} }

// loginMissing reads an answer to account/read.
func loginMissing(account gjson.Result) bool {
	who := account.Get("account")
	return account.Get("requiresOpenaiAuth").Bool() && (!who.Exists() || who.Type == gjson.Null)
}
