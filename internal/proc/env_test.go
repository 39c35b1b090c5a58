package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// Our own folder comes last, and never alone: an agent's files must not win.
func TestSearchPath(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/a:/b": "/a:/b", "": "/usr/local/bin:/usr/bin:/bin"} {
		if got := SearchPath(path); got != want+":"+filepath.Dir(self) {
			t.Errorf("SearchPath(%q) = %q", path, got)
		}
	}
}
