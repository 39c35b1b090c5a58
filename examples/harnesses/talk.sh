# The rehearsal's part: the prompt comes on stdin, $OS_TOOL calls a tool of the host.
set -e
cat > PROMPT.md
$OS_TOOL issue_update '{"state":"Done","comment":"See PROMPT.md in my folder."}' > /dev/null
echo "wrote down what I was asked for"
