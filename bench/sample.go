package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// sample holds the times of one task, one for each round.
type sample []time.Duration

// median is 0 for an empty sample.
func (s sample) median() time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the least time that p in a hundred of the sample do not exceed, 0 for an
// empty one.
func (s sample) percentile(p int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// task is something to be timed. It times itself, so that it can prepare and tidy up
// outside of the time.
type task struct {
	name string
	run  func(context.Context) (time.Duration, error)
}

// inTurn runs every task once a round and returns their samples in order. A round
// before the first one, which fills the caches, does not count.
func inTurn(ctx context.Context, rounds int, tasks ...task) ([]sample, error) {
	samples := make([]sample, len(tasks))
	for round := range rounds + 1 {
		for i, t := range tasks {
			took, err := t.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			if round > 0 {
				samples[i] = append(samples[i], took)
			}
		}
	}
	return samples, nil
}
