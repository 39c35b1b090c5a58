package spawn

import (
	"path/filepath"
	"slices"
	"strings"

	"ostoolkit/internal/proc"
)

// mark is the variable by which all processes of a server are known: its folder.
const mark = "OS_OPENHANDS_DIR"

// kept are our own variables that a server of many runs may see. Those of a run must
// not reach it: whoever clears up after that run would end the server.
var kept = []string{mark, "OS_TEST_ID"}

// foreign tells what is not handed on: settings that another server was meant to get,
// model keys that the library would take by itself, where traces are sent, and what
// belongs to one run.
func foreign(name string) bool {
	if name == "SESSION_API_KEY" || name == "TMUX" || name == "TMUX_PANE" || proc.GitLocation(name) {
		return true
	}
	return !slices.Contains(kept, name) && slices.ContainsFunc([]string{"OH_", "OS_", "OPENAI_", "LMNR_", "OTEL_", "LLM_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Environ is what the server gets: base without what is foreign to it, folders of its
// own below dir and temp, and everything switched off that would talk to the world.
// DEBUG_LLM must not be there at all: the server would wait for a person.
func Environ(base []string, dir, temp, secret string) []string {
	drop := func(name string) bool { return foreign(name) || name == "DEBUG_LLM" || name == "DEBUG" }
	below := func(name string) string { return filepath.Join(dir, name) }
	set := map[string]string{
		mark:                            dir,
		"HOME":                          below("home"),
		"TMPDIR":                        temp,
		"TMUX_TMPDIR":                   temp, // short: a socket's path is at most 108 bytes
		"OH_SESSION_API_KEYS_0":         sessionKey(secret),
		"OH_SECRET_KEY":                 secret,
		"OH_CONVERSATIONS_PATH":         Conversations(dir),
		"OH_BASH_EVENTS_DIR":            below("bash"),
		"OH_PERSISTENCE_DIR":            below("persistence"),
		"OH_WORKSPACE_PATH":             below("workspace"),
		"OH_CONVERSATION_WORKTREE_ROOT": below("worktrees"),
		"OH_ENABLE_VSCODE":              "false",
		"OH_ENABLE_VNC":                 "false",
		"OH_PRELOAD_TOOLS":              "false", // a browser
		"TZ":                            "UTC",   // its events have no zone
		"PYTHONUTF8":                    "1",
		"PYTHONUNBUFFERED":              "1",
		"LOG_JSON":                      "true",
		"OPENHANDS_SUPPRESS_BANNER":     "1",
		"DO_NOT_TRACK":                  "1",
		"ANONYMIZED_TELEMETRY":          "false",
		"LITELLM_LOCAL_MODEL_COST_MAP":  "True",
		"NO_PROXY":                      noProxy(base),
	}
	if !speaksUTF8(base) {
		set["LC_ALL"] = "C.UTF-8"
	}
	return proc.Environ(base, drop, set)
}

// speaksUTF8 reports whether the locale has UTF-8: without it tmux garbles the answers
// that the server reads, and no terminal can be had.
func speaksUTF8(environ []string) bool {
	locale := ""
	for _, name := range []string{"LANG", "LC_CTYPE", "LC_ALL"} { // the last one counts
		for _, kv := range environ {
			if value, ok := strings.CutPrefix(kv, name+"="); ok && value != "" {
				locale = strings.ToLower(value)
			}
		}
	}
	return strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
}

// noProxy adds this machine to the places that are reached without a proxy.
func noProxy(base []string) string {
	const here = "127.0.0.1,localhost"
	for _, kv := range slices.Backward(base) {
		if value, ok := strings.CutPrefix(kv, "NO_PROXY="); ok && value != "" {
			return value + "," + here
		}
	}
	return here
}
