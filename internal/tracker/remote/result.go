package remote

import (
	"encoding/json"
	"net/http"
	"strings"

	"ostoolkit/internal/wire"
)

// MaxResult bounds the body that a tool hands to its caller, in bytes.
const MaxResult = 512 << 10

// Result is an answer as a tool prints it: {status, headers, body, truncated}. Of the
// headers those that keep says, by their names in lower case. A body that is not JSON,
// or too long, is text.
func Result(res *http.Response, body []byte, keep func(name string) bool) (wire.Record, error) {
	out := struct {
		Status    int               `json:"status"`
		Headers   map[string]string `json:"headers"`
		Body      any               `json:"body"`
		Truncated bool              `json:"truncated"`
	}{Status: res.StatusCode, Headers: map[string]string{}}
	for name := range res.Header {
		if lower := strings.ToLower(name); keep(lower) {
			out.Headers[lower] = res.Header.Get(name)
		}
	}
	switch {
	case len(body) > MaxResult:
		out.Body, out.Truncated = strings.ToValidUTF8(string(body[:MaxResult]), ""), true
	case json.Valid(body):
		out.Body = json.RawMessage(body)
	case len(body) > 0:
		out.Body = strings.ToValidUTF8(string(body), "\uFFFD")
	}
	raw, err := wire.Encode(out)
	return &wire.Unknown{Raw: raw}, err
}
