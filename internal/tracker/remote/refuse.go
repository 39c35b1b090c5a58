package remote

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"ostoolkit/internal/tracker"
)

// Refused returns the error of an answer whose status is no success. detail is the
// service's own word on it, of which a bounded preview is shown.
func (o *Options) Refused(status int, detail string) *tracker.Error {
	message := "%s answered %d %s"
	args := []any{o.Name, status, http.StatusText(status)}
	if detail = o.Secrets.Preview(detail); detail != "" {
		message += ": %s"
		args = append(args, detail)
	}
	return o.errorf(categoryOf(status), message, args...)
}

func categoryOf(status int) tracker.Category {
	switch {
	case status == http.StatusUnauthorized:
		return tracker.Denied
	case status == http.StatusForbidden:
		return tracker.Forbidden
	case status == http.StatusNotFound, status == http.StatusGone:
		return tracker.NotFound
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return tracker.TimedOut
	case status == http.StatusTooManyRequests:
		return tracker.RateLimited
	case status >= http.StatusInternalServerError:
		return tracker.Unavailable
	}
	return tracker.BadStatus
}

// RetryAfter returns the instant that a Retry-After header names, in seconds or as a
// date, or the zero time.
func RetryAfter(h http.Header, now time.Time) time.Time {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseInt(text, 10, 32); err == nil && s >= 0 {
		return now.Add(time.Duration(s) * time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return at
	}
	return time.Time{}
}

const (
	redacted   = "[redacted]"
	previewMax = 300 // runes
)

// Secrets are texts that no message shows. A nil *Secrets holds none; the zero value
// is ready.
type Secrets struct {
	mu   sync.Mutex
	list []string
}

// Add takes one more text. Blank ones are not taken.
func (s *Secrets) Add(secret string) {
	if secret = strings.TrimSpace(secret); secret == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.list, secret) {
		s.list = append(s.list, secret)
	}
	// The longest first: one secret may begin with another.
	slices.SortFunc(s.list, func(a, b string) int { return len(b) - len(a) })
}

// Redact replaces each secret in text.
func (s *Secrets) Redact(text string) string {
	if s == nil {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.list {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// Preview returns the beginning of a foreign text for a message: one line without
// control characters and secrets, at most 300 characters.
func (s *Secrets) Preview(text string) string {
	const enough = 64 << 10 // bytes; an answer may have megabytes
	if len(text) > enough {
		text = text[:enough]
	}
	text = s.Redact(text) // before it is cut, which would leave a part of a secret
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	runes := []rune(strings.Join(strings.Fields(printable), " "))
	if len(runes) > previewMax {
		return string(runes[:previewMax]) + "…"
	}
	return string(runes)
}
