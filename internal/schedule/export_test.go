package schedule

import (
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Route routes one issue.
func Route(issue *wire.Issue, r workflow.Routing) (wire.Route, error) {
	return newRouter(r).route(issue)
}
