# What the rehearsal agent does in its folder. The prompt comes on stdin; $OS_TOOL
# calls a tool of the host, as a model would.
set -e
prompt=$(cat)
{
	echo "# What I was asked for"
	echo
	printf '%s\n' "$prompt"
} > ANSWER.md
sleep 1 # so that there is something to watch
$OS_TOOL issue_update '{"state":"Done","comment":"See ANSWER.md in my folder."}' > /dev/null
echo "wrote ANSWER.md and moved the card"
