package codex

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/wire"
)

// maxFrame bounds one frame of the peer in bytes.
const maxFrame = 64 << 20

// frame is one line of the app-server. Which of the three kinds it is follows from
// method and id alone: both sides number their requests by themselves, so a request
// of the server may bear the id of one of ours.
type frame struct {
	raw    string
	method string
	id     gjson.Result
	body   gjson.Result
	stray  string // why the line is no frame; "" if it is one
	torn   bool   // a stray that began like a frame
}

func (f *frame) isRequest() bool { return f.method != "" && f.id.Exists() }
func (f *frame) isAnswer() bool  { return f.method == "" && f.id.Exists() }

func (f *frame) params() gjson.Result { return f.body.Get("params") }

// key is the id as we count: a number and its decimal string are one.
func (f *frame) key() string {
	if f.id.Type == gjson.String {
		return f.id.Str
	}
	return f.id.Raw
}

// leadingEscapes are terminal sequences that a wrapper printed before a frame.
var leadingEscapes = regexp.MustCompile("^(?:\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_=>]))+")

func parseFrame(line wire.Line) frame {
	if line.Bytes == nil {
		return frame{stray: line.Err.Error()}
	}
	text := string(line.Bytes)
	if strings.HasPrefix(text, "\x1b") {
		text = leadingEscapes.ReplaceAllString(text, "")
	}
	text = strings.TrimSpace(text)
	switch {
	case !strings.HasPrefix(text, "{"):
		return frame{stray: "a line that is no frame"}
	case !gjson.Valid(text):
		return frame{stray: "a frame that is not JSON", torn: true}
	}
	body := gjson.Parse(text)
	f := frame{raw: text, body: body, method: body.Get("method").Str, id: body.Get("id")}
	if f.id.Type == gjson.Null {
		f.id = gjson.Result{}
	}
	if f.method == "" && !f.id.Exists() {
		f.stray = "a frame without method and id"
	}
	return f
}
