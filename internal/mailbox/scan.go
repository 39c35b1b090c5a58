package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// sight is what the box remembers of a request file from one scan to the next, so
// that a file which has not changed is not read again.
type sight struct {
	info    fs.FileInfo // of the file that was read; nil while it has not been
	since   time.Time   // when it was first seen like this
	retry   time.Time   // after trouble with it: not before then
	request Request
	fault   error // why it is no request; errTorn: it may become one
}

// is reports whether the file that was read lies at path, unchanged.
func (s *sight) is(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && s.shows(info)
}

func (s *sight) shows(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) &&
		s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// Scan returns the requests that can be delivered now, in the order of their file
// names. They stay in the box, and are returned again, until they are claimed. What
// cannot be delivered any more (invalid, expired, for another target) is answered
// and removed on the way; trouble with a single file is warned of and tried again
// later. An error means that the folder cannot be listed.
//
// Requests are valid for the kinds of the box and have their defaults filled in.
func (b *Box) Scan() ([]Request, error) {
	ids, err := b.requests()
	if err != nil {
		return nil, err
	}
	var ready []Request
	now := b.now()
	for _, id := range ids {
		if r := b.rule(id, now); r.act == deliver {
			ready = append(ready, b.seen[id].request)
		} else if r.act == answer {
			b.turnAway(id, r, now)
		}
	}
	return ready, nil
}

// requests lists the request files, except those that wait for an earlier request
// with the same id, and forgets the files that are gone.
func (b *Box) requests() ([]string, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, fmt.Errorf("list mailbox: %w", err)
	}
	var ids []string
	here := make(map[string]bool, len(b.seen))
	for _, e := range entries {
		id, ok := fileID(e, requestSuffix)
		if !ok {
			continue
		}
		here[id] = true
		if _, open := b.claims[id]; !open {
			ids = append(ids, id)
		}
	}
	gone := func(id string) bool { return !here[id] }
	maps.DeleteFunc(b.seen, func(id string, _ *sight) bool { return gone(id) })
	maps.DeleteFunc(b.warned, func(id string, _ bool) bool { return gone(id) })
	return ids, nil
}

// rule looks at one request file and says what is to be done about it.
func (b *Box) rule(id string, now time.Time) ruling {
	s := b.look(id, now)
	switch {
	case s == nil || now.Before(s.retry):
		return ruling{act: wait}
	case errors.Is(s.fault, errTorn) && now.Sub(s.since) < quiet:
		return ruling{act: wait}
	case s.fault != nil:
		return answered(Invalid, "%v", s.fault)
	}
	return judge(s.request, now, b.known)
}

// look returns what is known of a request file, read anew if it has changed, or nil if
// it is gone.
func (b *Box) look(id string, now time.Time) *sight {
	path := b.path(id, requestSuffix)
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	s := b.seen[id]
	if s != nil && (s.shows(info) || now.Before(s.retry)) {
		return s
	}
	s = &sight{since: now}
	b.seen[id] = s
	data, fault, err := readRequest(path, info)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		b.trouble(id, now, "read", err)
		return s
	}
	s.info, s.fault = info, fault
	if fault == nil {
		s.request, s.fault = parse(data)
	}
	if s.fault == nil {
		s.fault = b.kinds.check(s.request)
	}
	s.request.ID = id
	return s
}

// readRequest returns the content of a request file, or the fault that makes it none.
// An error is trouble that may pass.
func readRequest(path string, info fs.FileInfo) (data []byte, fault, err error) {
	if info.Size() > maxFile {
		return nil, fmt.Errorf("it has %d bytes, over the limit of %d", info.Size(), maxFile), nil
	}
	data, err = state.ReadFile(path)
	var refusal *state.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, fmt.Errorf("it %s", refusal.Reason), nil
	case errors.Is(err, fs.ErrPermission):
		return nil, errors.New("it cannot be read: permission denied"), nil
	}
	return data, nil, err
}

// trouble puts a file aside for a while, so that what is written about it does not
// make the next scan come at once. People are told once a file.
func (b *Box) trouble(id string, now time.Time, what string, err error) {
	b.seen[id].retry = now.Add(retryAfter)
	if !b.warned[id] {
		b.warned[id] = true
		b.warn("mailbox: %s request %q: %v", what, id, err)
	}
}

// turnAway answers a request that is not delivered and removes it. It reports whether
// that was done.
func (b *Box) turnAway(id string, r ruling, now time.Time) bool {
	s := b.seen[id]
	taken := b.path(takenTag+id, "")
	// Out of the way first: a request that replaces this one is then not removed in its
	// place. Whoever dies here leaves a file that Open puts back.
	err := os.Rename(b.path(id, requestSuffix), taken)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil && !s.is(taken) {
		if err := b.putBack(taken, id); err != nil {
			b.trouble(id, now, "put back", err)
		}
		return false
	}
	if err == nil {
		err = b.writeReply(Reply{ID: id, State: r.state, Message: wire.Text(r.message)}, s.request)
		if err != nil {
			err = errors.Join(err, b.putBack(taken, id))
		} else {
			err = remove(taken)
		}
	}
	if err != nil {
		b.trouble(id, now, "answer", err)
		return false
	}
	delete(b.seen, id)
	return true
}
