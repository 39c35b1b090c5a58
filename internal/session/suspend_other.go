//go:build !linux

package session

import "time"

// Slept returns a function that tells how long the machine was suspended since this
// call: what the wall clock is ahead of the monotonic one. A wall clock that is set
// forward looks the same. It may be called from several goroutines.
func Slept() func() time.Duration {
	begun := time.Now()
	return func() time.Duration {
		now := time.Now()
		return now.Round(0).Sub(begun.Round(0)) - now.Sub(begun)
	}
}
