package rehearse

import (
	"encoding/hex"
	"io"
)

// newID returns a UUID of version 7: it sorts by time, as the real server's ids do.
func (s *server) newID() string {
	var b [16]byte
	ms := s.env.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	if _, err := io.ReadFull(s.env.Rand, b[6:]); err != nil {
		s.env.Warnf("read randomness: %v", err)
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
