package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ostoolkit/internal/wire"
)

// OwnerFile is the name of the file in a workspace root that says whose it is.
const OwnerFile = ".os-root"

// Owner is who works in a workspace root. Two owners would mean two schedulers that
// do not see each other's locks.
type Owner struct {
	StateRoot string    `json:"state_root"`
	Host      string    `json:"host"`
	UID       int       `json:"uid"`
	CreatedAt wire.Time `json:"created_at"`
}

// Claim makes me the owner of the workspace root dir, or checks that I am. Another
// owner is a Refusal that names both.
func Claim(dir string, me Owner) error {
	path := filepath.Join(dir, OwnerFile)
	var owner Owner
	err := ReadJSON(path, &owner)
	if errors.Is(err, fs.ErrNotExist) {
		err = claimFirst(path, me, &owner)
	}
	if err != nil {
		return err
	}
	if owner.StateRoot == me.StateRoot && owner.Host == me.Host && owner.UID == me.UID {
		return nil
	}
	return &Refusal{path, fmt.Sprintf("says that this root belongs to state root %q of uid %d on host %q, not to %q of uid %d on %q",
		owner.StateRoot, owner.UID, owner.Host, me.StateRoot, me.UID, me.Host)}
}

// claimFirst writes the file so that of several first comers one wins: the complete
// file is linked into place, and a link fails where a name is taken.
func claimFirst(path string, me Owner, owner *Owner) error {
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := WriteJSON(temp, me); err != nil {
		return err
	}
	err := os.Link(temp, path)
	if removeErr := os.Remove(temp); err == nil {
		err = removeErr
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("claim workspace root: %w", err)
	}
	return ReadJSON(path, owner)
}
