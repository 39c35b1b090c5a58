#!/bin/sh
# after_create and before_remove: a linked worktree of REPO for each issue.
#
#   hooks:
#     after_create: REPO=/srv/git/app sh "$(dirname "$OS_WORKFLOW")/worktree.sh"
#     before_remove: REPO=/srv/git/app sh "$(dirname "$OS_WORKFLOW")/worktree.sh"
#     locks: {after_create: app-worktrees, before_remove: app-worktrees}
#
# All worktrees share one repository, hence the lock. A branch is kept when its worktree
# goes: what was committed there is not lost.
#
# after_create is run again where it was killed. Git may then know the folder or not, and
# the folder may be there or not; all four begin with a folder that git does not know and
# that is empty. One that is neither empty nor git's is somebody's work: the hook fails,
# each time alike, and says what to type.
set -eu
: "${REPO:?the repository to take a worktree of}"

# Paths of worktrees, without links in them, as git lists them.
known() {
	git -C "$REPO" worktree list --porcelain | grep -qxF "worktree $(pwd -P)"
}

forget() {
	# Twice --force: also one whose making was cut off, which git has locked.
	git -C "$REPO" worktree remove --force --force "$(pwd -P)" 2>&1 || git -C "$REPO" worktree prune
}

case $OS_HOOK in
after_create)
	if known; then
		forget
		mkdir -p "$OS_WORKSPACE"
		cd "$OS_WORKSPACE"
	fi
	if [ -n "$(ls -A)" ]; then
		echo "$OS_WORKSPACE is not empty and no worktree of $REPO; look into it, then: os-workspace remove --force $OS_KEY" >&2
		exit 65
	fi
	branch=agent/$OS_KEY
	if git -C "$REPO" show-ref --quiet --verify "refs/heads/$branch"; then
		git -C "$REPO" worktree add --quiet "$(pwd -P)" "$branch"
	else
		git -C "$REPO" worktree add --quiet -b "$branch" "$(pwd -P)"
	fi
	;;
before_remove)
	if known; then
		forget
	fi
	;;
esac
