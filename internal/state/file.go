package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"ostoolkit/internal/wire"
)

// maxFile bounds what ReadJSON takes into memory.
const maxFile = 64 << 20

// WriteJSON writes v as one line of JSON to path so that a reader, and whoever comes
// after a crash or a power cut, finds the old file or the new one: a temp file in
// the same folder, fsync, rename, fsync of the folder.
func WriteJSON(path string, v any) error {
	data, err := wire.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %q: %v", path, err)
	}
	return WriteFile(path, append(data, '\n'))
}

// WriteFile is WriteJSON for bytes as they are.
func WriteFile(path string, data []byte) error {
	if err := refuseLink(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	err := renameio.WriteFile(path, data, fileMode, renameio.WithTempDir(dir), renameio.WithStaticPermissions(fileMode))
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	return nil
}

// WriteVolatile is WriteJSON without fsync, for files that mean nothing after a
// power cut: SIGKILL alone loses neither the data nor the rename.
func WriteVolatile(path string, v any) error {
	data, err := wire.Encode(v)
	if err != nil {
		return fmt.Errorf("encode %q: %v", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort: the error above is the one to tell
		return fmt.Errorf("write state file: %w", err)
	}
	return nil
}

// removeTemps removes what WriteFile left of the named files in dir when it was killed in
// the middle. The caller makes sure that nobody is writing them now.
func removeTemps(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for temp files: %w", err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(names, func(name string) bool { return isTemp(name, e.Name()) }) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove temp file: %w", err)
		}
	}
	return nil
}

// isTemp tells whether name is that of a temp file of path, as renameio makes them.
func isTemp(path, name string) bool {
	digits, ok := strings.CutPrefix(name, "."+filepath.Base(path))
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// ReadJSON reads a state file. A missing one is an fs.ErrNotExist, a symbolic link
// is a Refusal, and a file that does not parse is an error that names it.
func ReadJSON(path string, v any) error {
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%q is damaged: %v", path, err)
	}
	return nil
}

// ReadFile reads a state file as it is, with the same refusals as ReadJSON.
func ReadFile(path string) ([]byte, error) {
	f, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read state file: %w", err)
	}
	if fi.Size() > maxFile {
		return nil, &Refusal{path, fmt.Sprintf("has %d bytes, over the limit of %d", fi.Size(), maxFile)}
	}
	data := make([]byte, fi.Size())
	n, err := readFull(f, data)
	if err != nil {
		return nil, fmt.Errorf("read state file: %w", err)
	}
	return data[:n], nil
}

func readFull(f *os.File, data []byte) (int, error) {
	n := 0
	for n < len(data) {
		m, err := f.Read(data[n:])
		n += m
		if m == 0 || err != nil {
			return n, err
		}
	}
	return n, nil
}

// openPlain opens a regular file without following a link in its last component.
func openPlain(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, fileMode)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) {
		return nil, &Refusal{path, "is a symbolic link"}
	}
	if err != nil {
		return nil, fmt.Errorf("open state file: %w", err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &Refusal{path, "is not a plain file"}
	}
	if err != nil {
		_ = f.Close() // nothing was written through it
		return nil, err
	}
	return f, nil
}

func refuseLink(path string) error {
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSymlink != 0 {
		return &Refusal{path, "is a symbolic link"}
	}
	return nil
}
