package mailbox

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	tests := []struct{ file, fault string }{
		{`{"text":"x"}`, ""},
		{" {\"text\":\"x\"}\r\n", ""},
		{`{"text":"x","unknown":[{}],"TEXT":7,"kind":null,"target":null}`, ""},
		{`{"kind":"approve","request":"a1"}`, ""},
		{`{"kind":"answer","request":"q1","answers":{"q":["yes"]}}`, ""},
		{`{"kind":"answer","request":"q1","answers":["yes"]}`, ""},
		{`{"kind":"interrupt","reason":"tracker"}`, ""},
		{`{"text":"x","target":{"turn":"t","pid":7}}`, ""},
		{`{"text":"` + strings.Repeat("x", 65_536) + `"}`, ""},

		{``, "not complete"},
		{` `, "not complete"},
		{`{`, "not complete"},
		{`{"text":"x`, "not complete"},
		{`{"text":"x"`, "not complete"},
		{`[1,`, "not complete"},
		{"\x00\x00", "not a JSON object"},
		{`text`, "not a JSON object"},
		{`"text"`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`null`, "but null"},
		{`{"text":"x"}{"text":"y"}`, "something follows"},
		{`{"text":"x"}}`, "something follows"},

		{`{}`, `kind "steer" needs member text`},
		{`{"text":""}`, "needs member text"},
		{`{"text":" \n\t\u00a0"}`, "needs member text"},
		{`{"text":7}`, "member text is not a string"},
		{`{"text":"` + strings.Repeat("x", 65_537) + `"}`, "65537 bytes"},
		{`{"kind":"stop","text":"` + strings.Repeat("x", 65_537) + `"}`, "65537 bytes"},
		{`{"kind":"shout","text":"x"}`, `kind "shout" is none of answer, approve, cancel, decline, interrupt, queue, steer, stop`},
		{`{"kind":"","text":"x"}`, `kind "" is none`},
		{`{"kind":"queue"}`, `kind "queue" needs member text`},
		{`{"kind":"decline"}`, "needs member request"},
		{`{"kind":"answer","request":"q1"}`, "needs member answers"},
		{`{"kind":"answer","request":"q1","answers":"yes"}`, "needs member answers"},
		{`{"text":"x","expires_at":"tomorrow"}`, "expires_at is not a time"},
		{`{"text":"x","keep":"yes"}`, "keep is not true or false"},
		{`{"text":"x","target":"t"}`, "target is not an object"},
		{`{"text":"x","target":{"trun":"t"}}`, `target names "trun"`},
		{`{"text":"x","target":{"turn":["t"]}}`, "neither a string nor a number"},
		{`{"text":"x","target":{"turn":null}}`, "neither a string nor a number"},
	}
	for _, tt := range tests {
		r, err := parse([]byte(tt.file))
		if errors.Is(err, errTorn) != (tt.fault == "not complete") {
			t.Errorf("%.60s: torn: %v", tt.file, err)
		}
		if err == nil {
			err = SessionKinds.check(r)
		}
		if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%.60s: %v, want %q", tt.file, err, tt.fault)
		}
	}
}

func TestParseFillsIn(t *testing.T) {
	r, err := parse([]byte(`{"text":"x","reason":"","expires_at":"2026-11-30T13:00:00+01:00","keep":true}`))
	want := Request{Kind: Steer, Text: "x", Reason: "operator", ExpiresAt: wire.At(noon), Keep: true}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := parse([]byte(`{"text":"quoted","keep":1}`)); err == nil || r.Text != "quoted" {
		t.Errorf("what could be read is %+v, %v", r, err)
	}
}

func TestLoopKinds(t *testing.T) {
	tests := []struct {
		r  Request
		ok bool
	}{
		{Request{Kind: Refresh}, true}, {Request{Kind: Shutdown}, true},
		{Request{Kind: Stop}, false}, {Request{Kind: Stop, Issue: "ABC-1"}, true},
		{Request{Kind: Hold}, false}, {Request{Kind: Hold, Backend: "codex"}, true},
		{Request{Kind: Steer, Text: "x"}, false},
	}
	for _, tt := range tests {
		if err := LoopKinds.check(tt.r); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.r, err)
		}
	}
}

func TestJudge(t *testing.T) {
	running := map[string]any{"run_id": "r1", "turn": "t1", "pid": 4321987.0}
	between := map[string]any{"run_id": "r1"}
	tests := []struct {
		name   string
		target map[string]any
		expiry time.Time
		known  map[string]any
		want   ruling
	}{
		{"no conditions", nil, time.Time{}, nil, ruling{act: deliver}},
		{"not expired", nil, noon.Add(time.Millisecond), nil, ruling{act: deliver}},
		{"expires now", nil, noon, nil, answered(Expired, "it expired at 2026-11-30T12:00:00Z")},
		{"expiry before target", map[string]any{"turn": "t2"}, noon, running, answered(Expired, "it expired at 2026-11-30T12:00:00Z")},
		{"matches", map[string]any{"turn": "t1", "pid": 4321987.0}, time.Time{}, running, ruling{act: deliver}},
		{"one differs", map[string]any{"turn": "t2", "run_id": "r1"}, time.Time{}, running, answered(Refused, `target turn is "t1", not "t2"`)},
		{"number differs", map[string]any{"pid": 1.0}, time.Time{}, running, answered(Refused, `target pid is 4321987, not 1`)},
		{"other type", map[string]any{"pid": "4321987"}, time.Time{}, running, answered(Refused, `target pid is 4321987, not "4321987"`)},
		{"a turn when none runs", map[string]any{"turn": "t1"}, time.Time{}, between, answered(Refused, "target turn: no turn runs")},
		{"the run between turns", map[string]any{"run_id": "r1"}, time.Time{}, between, ruling{act: deliver}},
		{"a session that is not known yet", map[string]any{"session": "s"}, time.Time{}, between, ruling{act: wait}},
	}
	for _, tt := range tests {
		r := Request{Target: tt.target}
		if !tt.expiry.IsZero() {
			r.ExpiresAt = wire.At(tt.expiry)
		}
		if got := judge(r, noon, tt.known); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestStatesMoveForward(t *testing.T) {
	all := []State{Claimed, Unconfirmed, Accepted, Consumed, Refused, Invalid, Expired, Undelivered, "made up"}
	allowed := map[State][]State{
		Claimed:     {Unconfirmed, Accepted, Consumed, Refused, Invalid, Expired, Undelivered},
		Unconfirmed: {Unconfirmed, Accepted, Consumed, Refused, Invalid, Expired, Undelivered},
		Accepted:    {Accepted, Consumed, Refused, Invalid, Expired, Undelivered},
	}
	for _, prev := range all[:len(all)-1] {
		for _, next := range all {
			want := false
			for _, s := range allowed[prev] {
				want = want || s == next
			}
			if follows(prev, next) != want {
				t.Errorf("%q after %q: %v", next, prev, !want)
			}
		}
	}
	if settles(Steer, Accepted) || !settles(Steer, Consumed) || !settles(Stop, Accepted) || settles(Stop, Unconfirmed) {
		t.Error("the wrong states are the last word")
	}
}

func TestValidID(t *testing.T) {
	long := strings.Repeat("x", 64)
	for id, want := range map[string]bool{
		"a": true, "A-1_z": true, long: true, "": false, long + "x": false, "a.b": false, "ä": false, "a/b": false, ".a": false, "a b": false,
	} {
		if validID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"text":"write the test first"}`, `{"kind":"answer","request":"q","answers":{"a":[1]},"keep":true}`,
		`{"text":"x","target":{"turn":"t","pid":1e3},"expires_at":"2026-11-30T12:00:00Z"}`, `{"kind":"stop","reason":"\ud800"}`,
		`{"te`, `{}`, `[`, "\x00", `{"text":"a"}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			return
		}
		whole := len(strings.TrimRight(string(data), " \t\r\n"))
		for cut := range whole {
			if _, err := parse(data[:cut]); !errors.Is(err, errTorn) {
				t.Fatalf("%q, the beginning of a request, is not torn: %v", data[:cut], err)
			}
		}
		if SessionKinds.check(r) != nil {
			return
		}
		_ = judge(r, noon, map[string]any{"turn": "t", "pid": 1.0}) // must not panic, whatever a target holds
		line, err := wire.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(line)
		if err == nil {
			err = SessionKinds.check(again)
		}
		if err != nil || again.Kind != r.Kind || again.Text != r.Text || again.Request != r.Request {
			t.Fatalf("%q was read as %+v, written as %s and read as %+v, %v", data, r, line, again, err)
		}
	})
}
