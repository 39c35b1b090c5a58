#!/bin/sh
# after_create: a clone of REPO for each issue, on a branch of its own.
#
#   hooks:
#     after_create: REPO=git@example.org:team/app.git sh "$(dirname "$OS_WORKFLOW")/clone.sh"
#     timeout_ms: 300000
#     env: [SSH_AUTH_SOCK]
#
# The folder is this hook's working directory. It is empty the first time, and holds the
# rest of the last try where that was killed or failed: the clone then begins anew, which
# is right, since nobody has worked here yet.
set -eu
: "${REPO:?the repository to clone}"
find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +
git clone --quiet "$REPO" .
git switch --quiet --create "agent/$OS_KEY" 2>&1
