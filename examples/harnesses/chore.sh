#!/bin/sh
# A harness without an agent: it runs in the issue's folder and moves the card itself.
set -e
OS_ISSUE_FILE=$OS_STATE_DIR/runs/$OS_RUN_ID/record.json
export OS_ISSUE_FILE
cat > record.json
date -u > CHORE.txt
echo '{"state":"Done","comment":"done by chore.sh"}' | os-poll tool call issue_update > /dev/null
