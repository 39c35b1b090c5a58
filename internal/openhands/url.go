package openhands

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckURL says what is wrong with the address of a server, or nil. One that is not on
// this machine must be asked over https and with a key.
func CheckURL(text string, key bool) error {
	u, err := parseURL(text)
	if err != nil {
		return err
	}
	if loopback(u.Hostname()) {
		return nil
	}
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("agent-server %q is not on this machine and not asked over https", text)
	case !key:
		return fmt.Errorf("agent-server %q is not on this machine and needs a session key: name its variable with --api-key-env", text)
	}
	return nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("agent-server %q is no address", text)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("agent-server %q: scheme %q is neither http nor https", text, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("agent-server %q names no host", text)
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return nil, fmt.Errorf("agent-server %q names no port", text)
	case !isPort(u.Port()):
		return nil, fmt.Errorf("agent-server %q: %s is no port", text, u.Port())
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("agent-server %q has a user, a query or a fragment in its address", redactUser(u))
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// isPort accepts "" too, which is the scheme's own. net/url has checked the digits.
func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return text == "" || err == nil && 0 < n && n <= math.MaxUint16
}

func redactUser(u *url.URL) string { return u.Scheme + "://" + u.Host }

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
