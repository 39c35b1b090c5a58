package state_test

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"ostoolkit/internal/state"
)

// replaced are characters that are none in a key, in one, two, three and four bytes, and
// the one that they are replaced by.
var replaced = []rune("_ /:\\\t\x00é€😀")

// lookalikes draws n different identifiers that look the same once they are safe: what
// stands outside of keys stands in the same places.
func lookalikes(r *rand.Rand, n int) map[string]bool {
	const plain = "abzAZ09.-"
	shape := make([]byte, 4+r.IntN(10)) // 0: a character to be replaced
	for i := range shape {
		if i > 3 && r.IntN(2) == 0 {
			shape[i] = plain[r.IntN(len(plain))]
		}
	}
	r.Shuffle(len(shape), func(i, j int) { shape[i], shape[j] = shape[j], shape[i] })
	all := map[string]bool{}
	for len(all) < n {
		var one []byte
		for _, c := range shape {
			if c == 0 {
				one = utf8.AppendRune(one, replaced[r.IntN(len(replaced))])
			} else {
				one = append(one, c)
			}
		}
		all[string(one)] = true
	}
	return all
}

// Case W01: of a million pairs that sanitise alike none shares a folder.
func TestKeysOfAMillionPairs(t *testing.T) {
	const group = 64
	r := rand.New(rand.NewPCG(1, 2))
	for pairs := 0; pairs < 1_000_000; pairs += group * (group - 1) / 2 {
		owner := map[string]string{}
		for identifier := range lookalikes(r, group) {
			key, err := state.Key(identifier)
			if other, taken := owner[key]; taken || err != nil {
				t.Fatalf("%q and %q have the key %q: %v", identifier, other, key, err)
			}
			owner[key] = identifier
			checkKey(t, key)
		}
	}
}

// FuzzKeyPair looks for two identifiers with one key, and for one with two.
func FuzzKeyPair(f *testing.F) {
	f.Add("a/b", "a_b")
	f.Add("..", "_.")
	f.Add("\xff", "\ufffd")
	f.Add("A-1", "a-1")
	f.Add("A-1", "A-1")
	f.Fuzz(func(t *testing.T, one, two string) {
		if one == "" || two == "" {
			t.Skip()
		}
		a, err1 := state.Key(one)
		b, err2 := state.Key(two)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (a == b) != (one == two) {
			t.Fatalf("%q has the key %q, %q has %q", one, a, two, b)
		}
		checkKey(t, a)
	})
}
