package mailbox_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/watch"
)

// From the rename of a request to the claim by an owner who waits for hints.
func BenchmarkRenameToClaim(b *testing.B) {
	r := newRig(b)
	w, err := watch.Open([]string{r.dir}, watch.Options{Interval: time.Hour})
	r.must(err)
	defer w.Close()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		r.must(os.WriteFile(r.path(".t"), []byte(`{"text":"write the test first"}`), 0o600))
		start := time.Now()
		r.must(os.Rename(r.path(".t"), r.path("a.request.json")))
		for claimed := false; !claimed; {
			<-w.C()
			for _, req := range r.scan() {
				r.must(r.Claim(req))
				claimed = true
			}
		}
		took = append(took, time.Since(start))
		r.reply("a", mailbox.Consumed)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkScanAndClaim(b *testing.B) {
	r := newRig(b)
	for b.Loop() {
		b.StopTimer()
		r.request("a", `{"text":"write the test first"}`)
		b.StartTimer()
		ready, err := r.Scan()
		r.must(err)
		r.must(r.Claim(ready[0]))
		b.StopTimer()
		r.reply("a", mailbox.Consumed)
		b.StartTimer()
	}
}

func BenchmarkScan(b *testing.B) {
	for _, held := range []int{0, 100} {
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			r := newRig(b)
			for i := range held {
				r.request(fmt.Sprint(i), `{"text":"x"}`)
			}
			for b.Loop() {
				if _, err := r.Scan(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
