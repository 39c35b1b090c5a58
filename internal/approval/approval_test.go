package approval

import "testing"

func TestGrant(t *testing.T) {
	tests := []struct {
		policy  string
		offered []string
		want    bool
	}{
		{"policy", nil, false},
		{"policy", []string{"accept"}, false},
		{"decline", []string{"accept"}, false},
		{"mailbox", nil, false},
		{"mailbox", []string{"accept"}, false},
		{"accept", nil, true},
		{"accept", []string{"accept", "cancel"}, true},
		{"accept", []string{"acceptForSession", "cancel"}, false},
		{"accept", []string{}, false},
	}
	for _, tt := range tests {
		p, err := Parse(tt.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Grant("accept", tt.offered); got != tt.want {
			t.Errorf("%s with %q on offer grants %t, want %t", tt.policy, tt.offered, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, name := range []string{"", "Accept", "always"} {
		if p, err := Parse(name); err == nil {
			t.Errorf("%q is policy %q, want an error", name, p)
		}
	}
}

func TestDismisses(t *testing.T) {
	for p, want := range map[Policy]bool{ByPolicy: false, Accept: false, Decline: true, Mailbox: false} {
		if p.Dismisses() != want {
			t.Errorf("%s dismisses questions: %t, want %t", p, !want, want)
		}
	}
}
