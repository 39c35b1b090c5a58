#!/bin/sh
# before_run: the files that a repository ignores and still needs, such as .env, copied
# from FROM into the folder of the issue.
#
#   hooks:
#     after_create: REPO=/srv/git/app sh "$(dirname "$OS_WORKFLOW")/worktree.sh"
#     before_run: FROM=/srv/git/app sh "$(dirname "$OS_WORKFLOW")/env-files.sh"
#
# Only what git ignores in the folder is copied, so that no secret is ever committed, and
# only what is not there yet, so that the agent's own changes stay. Other patterns go in
# FILES; they are matched in FROM, without its subfolders.
#
# What the agent can read it can also send away. Give it secrets of a test system.
set -eu
: "${FROM:?the folder to copy from}"
here=$(pwd -P)
cd "$FROM"
for file in ${FILES:-.env .env.*}; do
	[ -f "$file" ] || continue
	[ -e "$here/$file" ] && continue
	if git -C "$here" check-ignore --quiet -- "$file"; then
		cp -p -- "$file" "$here/$file"
	else
		echo "$file is not ignored by git here, so it is not copied" >&2
	fi
done
