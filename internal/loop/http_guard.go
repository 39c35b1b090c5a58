package loop

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard decides who may ask.
type guard struct {
	token    string
	loopback bool
	slots    chan struct{} // one for each request under way
}

// around keeps strangers from next. The order matters: who has no leave learns nothing
// and takes no slot.
func (g *guard) around(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "forbidden", "a page of another origin may not ask for that")
	}))
	inner := foreign.Handler(g.bounded(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case g.token == "" && g.loopback && !localName(r.Host):
			refuse(w, http.StatusForbidden, "forbidden", "this host name is not one of loopback")
		case g.token != "" && r.URL.Path != healthPath && !g.knows(r):
			h.Add("WWW-Authenticate", `Bearer realm="os-loop"`)
			h.Add("WWW-Authenticate", `Basic realm="os-loop", charset="UTF-8"`)
			refuse(w, http.StatusUnauthorized, "unauthorized", "a token is wanted")
		default:
			inner.ServeHTTP(w, r)
		}
	})
}

// bounded limits how many requests are under way, and their bodies.
func (g *guard) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusServiceUnavailable, "busy", "too many requests at once")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, httpMaxBody)
		next.ServeHTTP(w, r)
	})
}

// knows reports whether a request has the token: as a bearer, or as the password of
// anybody, which is how a browser can give it. Hashes have one length, so that the
// comparison tells nothing about the token's.
func (g *guard) knows(r *http.Request) bool {
	said, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		if _, said, ok = r.BasicAuth(); !ok {
			return false
		}
	}
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(g.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// localName reports whether a Host header names loopback. A page of a stranger whose
// name was made to resolve to this machine has another one there.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
