package openhands

import (
	"testing"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/openhands/spawn"
	"ostoolkit/internal/session"
)

func TestExhausted(t *testing.T) {
	for problem, want := range map[string]string{
		`{"code":"LLMContextWindowExceedError","classification":{"kind":"agent_action"}}`:          "it ran out of context",
		`{"code":"LLMMalformedConversationHistoryError","classification":{"kind":"agent_action"}}`: "the model's provider does not take its history any more",
		`{"code":"NoCondensationAvailableException","classification":{"kind":"unknown"}}`:          "it ran out of context and could not be condensed",
		`{"code":"NoCondensationAvailableException","classification":{"kind":"transient"}}`:        "it ran out of context and could not be condensed",
		`{"code":"NoCondensationAvailableException","classification":{"kind":"auth"}}`:             "",
		`{"code":"NoCondensationAvailableException","classification":{"kind":"rate_limit"}}`:       "",
		`{"code":"MaxIterationsReached","classification":{"kind":"agent_action"}}`:                 "",
		`{"code":"LLMContextWindowTooSmallError","classification":{"kind":"config"}}`:              "",
		`{"code":"KeyError","detail":"the context window is too long"}`:                            "", // text never decides
		``: "",
	} {
		if got := exhausted(gjson.Parse(problem)); got != want {
			t.Errorf("%s: %q, want %q", problem, got, want)
		}
	}
}

func TestStore(t *testing.T) {
	const id = "9a2656c9-1b84-468b-821b-e5b744ee9bc4"
	theirs, ours := &Config{}, &Config{Server: Server{Spawn: &spawn.Config{Dir: "/state/openhands"}}}
	for _, tt := range []struct {
		c    *Config
		info string
		want string
	}{
		{theirs, `{}`, ""},
		{theirs, `{"id":"` + id + `","persistence_dir":"/data/conversations/9a2656c91b84468b821be5b744ee9bc4"}`, "/data/conversations"},
		{theirs, `{"id":"` + id + `","persistence_dir":"/data/conversations"}`, "/data/conversations"},
		{theirs, `{"id":"` + id + `","persistence_dir":null}`, ""},
		{ours, `{}`, "/state/openhands/conversations"},
	} {
		if got := tt.c.store(gjson.Parse(tt.info)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.info, got, tt.want)
		}
	}
}

func TestMoved(t *testing.T) {
	old := &session.Conversation{SessionID: "A", PersistenceDir: "/one"}
	for _, tt := range []struct {
		old     *session.Conversation
		id, now string
		want    bool
	}{
		{old, "A", "/one", false},
		{old, "A", "/two", true},
		{old, "A", "", false},     // the server does not say
		{old, "B", "/two", false}, // another one was named
		{nil, "A", "/two", false},
		{&session.Conversation{SessionID: "A"}, "A", "/two", false}, // of an earlier version
	} {
		if got := moved(tt.old, tt.id, tt.now); (got != "") != tt.want {
			t.Errorf("%+v as %q in %q: %q", tt.old, tt.id, tt.now, got)
		}
	}
}
