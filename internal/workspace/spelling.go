package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"ostoolkit/internal/state"
)

// checkSpelling refuses a folder of p that was made for another key. Where a file system
// takes upper and lower case for the same, two keys can lead to one folder, and only the
// listing tells for which of them it was made.
func (s *Store) checkSpelling(p Place) error {
	if !foldsCase(p.Path) {
		return nil
	}
	root, err := os.Open(s.root)
	if err != nil {
		return fmt.Errorf("look at workspace root: %w", err)
	}
	defer func() { _ = root.Close() }() // read only
	names, err := root.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("look at workspace root: %w", err)
	}
	if twin := otherSpelling(names, p.Key); twin != "" {
		return &state.Refusal{Path: p.Path, Reason: fmt.Sprintf("is the folder %q: this file system takes upper and lower case for the same", twin)}
	}
	return nil
}

// foldsCase tells whether what lies at path can be reached by another spelling of its
// name.
func foldsCase(path string) bool {
	dir, name := filepath.Split(path)
	swapped := swapCase(name)
	if swapped == name {
		return false
	}
	one, err1 := os.Lstat(path)
	two, err2 := os.Lstat(dir + swapped)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
}

// otherSpelling returns the name that differs from key in case only, where key itself is
// not among the names; else "".
func otherSpelling(names []string, key string) (twin string) {
	for _, name := range names {
		if name == key {
			return ""
		}
		if strings.EqualFold(name, key) {
			twin = name
		}
	}
	return twin
}
