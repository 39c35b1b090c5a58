package linear

// Every nested list has an explicit size: Linear prices one without it at fifty
// entries a parent, whatever it holds (case P10). What does not fit is read later,
// list by list (more.go).
const issueFields = `
fragment OsIssue on Issue {
  id
  identifier
  title
  description
  priority
  branchName
  url
  createdAt
  updatedAt
  archivedAt
  trashed
  state { id name type }
  team { id key }
  assignee { id }
  creator { displayName guest }
  project { id slugId name }
  projectMilestone { name }
  parent { id identifier state { name } }
  labels(first: $labels) { nodes { name } pageInfo { hasNextPage endCursor } }
  inverseRelations(first: $blockers) { nodes { ...OsRelation } pageInfo { hasNextPage endCursor } }
  children(first: $children, includeArchived: true) { nodes { ...OsChild } pageInfo { hasNextPage endCursor } }
  attachments(first: $attachments) { nodes { ...OsAttachment } pageInfo { hasNextPage endCursor } }
}
` + relationFields + childFields + attachmentFields

const (
	relationFields   = "fragment OsRelation on IssueRelation { type issue { id identifier state { name } } }\n"
	childFields      = "fragment OsChild on Issue { id identifier state { name } }\n"
	attachmentFields = "fragment OsAttachment on Attachment { url sourceType createdAt }\n"
)

// issuesQuery reads one page of issues: a list, ids or identifiers, as the filter
// says. The order is that of creation, which no edit changes, so that an issue keeps
// its place while the pages are read.
const issuesQuery = `query OsIssues(
  $filter: IssueFilter!, $archived: Boolean!, $first: Int!, $after: String
  $labels: Int!, $blockers: Int!, $children: Int!, $attachments: Int!
) {
  issues(filter: $filter, includeArchived: $archived, orderBy: createdAt, first: $first, after: $after) {
    nodes { ...OsIssue }
    pageInfo { hasNextPage endCursor }
  }
}
` + issueFields

// The rest of one nested list of one issue. There is no filter by type on relations:
// Linear refuses one.
const (
	labelsQuery = `query OsLabels($id: String!, $first: Int!, $after: String!) {
  issue(id: $id) { id more: labels(first: $first, after: $after) { nodes { name } pageInfo { hasNextPage endCursor } } }
}
`
	relationsQuery = `query OsBlockers($id: String!, $first: Int!, $after: String!) {
  issue(id: $id) { id more: inverseRelations(first: $first, after: $after) { nodes { ...OsRelation } pageInfo { hasNextPage endCursor } } }
}
` + relationFields
	childrenQuery = `query OsChildren($id: String!, $first: Int!, $after: String!) {
  issue(id: $id) { id more: children(first: $first, after: $after, includeArchived: true) { nodes { ...OsChild } pageInfo { hasNextPage endCursor } } }
}
` + childFields
	attachmentsQuery = `query OsAttachments($id: String!, $first: Int!, $after: String!) {
  issue(id: $id) { id more: attachments(first: $first, after: $after) { nodes { ...OsAttachment } pageInfo { hasNextPage endCursor } } }
}
` + attachmentFields
)

const viewerQuery = "query OsViewer { viewer { id } }\n"

// projectQuery tells an unknown project from an empty one, and which states its
// issues can be in. States belong to teams.
const projectQuery = `query OsProject($slugs: [String!]!, $first: Int!, $after: String) {
  projects(filter: { slugId: { in: $slugs } }, first: 2) {
    nodes {
      id name slugId url
      teams(first: $first, after: $after) {
        nodes { key states(first: 50) { nodes { name } pageInfo { hasNextPage endCursor } } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
`

// commentsQuery reads the comments of an issue that may carry a marker. A thread's
// state is on its first comment, so answers are left out.
const commentsQuery = `query OsComments($filter: IssueFilter!, $comments: CommentFilter!, $first: Int!, $after: String) {
  issues(filter: $filter, includeArchived: true, first: 1) {
    nodes {
      id
      comments(filter: $comments, first: $first, after: $after) {
        nodes { id body updatedAt resolvedAt }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
`

// touchedQuery tells which of the issues that a tool call names are in scope.
const touchedQuery = `query OsTouched($filter: IssueFilter!, $first: Int!) {
  issues(filter: $filter, includeArchived: true, first: $first) { nodes { id identifier } }
}
`

// commentIssueQuery finds the issue of a comment that a tool call names.
const commentIssueQuery = "query OsCommentIssue($id: String!) { comment(id: $id) { issue { id } } }\n"

// nested holds the sizes of the nested lists of one issue.
type nested struct{ labels, blockers, children, attachments int }

// Linear refuses a query of more than 10,000 points, however little it would find: a
// scalar is 0.1, an object 1, a list its size times its entry. An issue costs some 60
// points with roomy lists, which spare requests, and some 40 with narrow ones.
func nestedFor(pageSize int) nested {
	if pageSize <= roomyPage {
		return nested{labels: 5, blockers: 4, children: 4, attachments: 3}
	}
	return nested{labels: 3, blockers: 2, children: 1, attachments: 1}
}

// moreSize is the size of each further page of a nested list.
const moreSize = 50

// roomyPage is the largest page whose nested lists may be roomy.
const roomyPage = 100

// maxPage is the largest page that Linear gives.
const maxPage = 250
