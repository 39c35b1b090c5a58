package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Temps returns the temp files right in dir that were written to last before the given
// time: what writers of state files have left that were killed. One that is younger may
// still become a file. A folder that is not there has none.
func Temps(dir string, before time.Time) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for temp files: %w", err)
	}
	var temps []string
	for _, e := range entries {
		if !looksTemp(e.Name()) || e.IsDir() {
			continue
		}
		if fi, err := e.Info(); err == nil && fi.ModTime().Before(before) {
			temps = append(temps, filepath.Join(dir, e.Name()))
		}
	}
	return temps, nil
}

// looksTemp knows the names that WriteFile and WriteVolatile give.
func looksTemp(name string) bool {
	if strings.HasPrefix(name, ".tmp-") {
		return true
	}
	whole := strings.TrimRight(name, "0123456789")
	if whole == name {
		return false
	}
	whole, hidden := strings.CutPrefix(whole, ".")
	switch filepath.Ext(whole) {
	case ".json", ".md":
		return hidden
	}
	return whole == OwnerFile
}
