package peertest

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// maxComplexity is what Linear lets one query cost.
const maxComplexity = 10000

// complexity prices an operation by Linear's published rule: 0.1 a scalar, 1 an
// object, a list its size (50 where none is given) times its entry.
func complexity(op *ast.OperationDefinition, vars map[string]any) int {
	return int(math.Ceil(cost(op.SelectionSet, vars) - 1e-9))
}

func cost(set ast.SelectionSet, vars map[string]any) float64 {
	total := 0.0
	for _, s := range set {
		switch s := s.(type) {
		case *ast.FragmentSpread:
			total += cost(s.Definition.SelectionSet, vars)
		case *ast.InlineFragment:
			total += cost(s.SelectionSet, vars)
		case *ast.Field:
			total += fieldCost(s, vars)
		}
	}
	return total
}

func fieldCost(f *ast.Field, vars map[string]any) float64 {
	switch {
	case len(f.SelectionSet) == 0:
		return 0.1
	case strings.HasSuffix(f.Definition.Type.Name(), "Connection"):
		return float64(pageSize(f.ArgumentMap(vars))) * cost(f.SelectionSet, vars)
	}
	return 1 + cost(f.SelectionSet, vars)
}

const defaultPageSize = 50

func pageSize(args map[string]any) int {
	for _, name := range []string{"first", "last"} {
		if n, ok := number(args[name]); ok {
			return int(n)
		}
	}
	return defaultPageSize
}

// number reads an argument, which may come as a literal or from JSON.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case interface{ Float64() (float64, error) }:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// linearQuota is two leaky buckets, refilled over an hour.
type linearQuota struct {
	Requests   float64 `json:"requests"`
	Complexity float64 `json:"complexity"`

	usedRequests, usedPoints float64
	at                       time.Time
}

// linearLeft is what a request left of the quota.
type linearLeft struct {
	Requests   float64 `json:"requests"`
	Complexity float64 `json:"complexity"`
}

// take charges one request, and returns its headers and whether it is let through.
func (q *linearQuota) take(now time.Time, points int) (map[string]string, linearLeft, bool) {
	if hours := now.Sub(q.at).Hours(); !q.at.IsZero() && hours > 0 {
		q.usedRequests = max(0, q.usedRequests-hours*q.Requests)
		q.usedPoints = max(0, q.usedPoints-hours*q.Complexity)
	}
	q.at = now
	ok := q.usedRequests+1 <= q.Requests && q.usedPoints+float64(points) <= q.Complexity
	if ok {
		q.usedRequests++
		q.usedPoints += float64(points)
	}
	left := linearLeft{math.Floor(q.Requests - q.usedRequests), math.Floor(q.Complexity - q.usedPoints)}
	text := func(f float64) string { return strconv.FormatFloat(f, 'f', 0, 64) }
	reset := func(used, limit float64) string {
		return text(float64(now.UnixMilli()) + math.Ceil(used/limit*3600_000))
	}
	return map[string]string{
		"X-Complexity":                     strconv.Itoa(points),
		"X-RateLimit-Requests-Limit":       text(q.Requests),
		"X-RateLimit-Requests-Remaining":   text(left.Requests),
		"X-RateLimit-Requests-Reset":       reset(q.usedRequests, q.Requests),
		"X-RateLimit-Complexity-Limit":     text(q.Complexity),
		"X-RateLimit-Complexity-Remaining": text(left.Complexity),
		"X-RateLimit-Complexity-Reset":     reset(q.usedPoints, q.Complexity),
	}, left, ok
}
