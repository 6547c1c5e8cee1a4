#!/bin/sh
# Runs the program given and compares what it prints with the README's block; on a difference, shows it and fails.
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^```text$/,/^```$/p' "$here/README.md" | sed '/^```/d' > "$work/expected"
"$1" > "$work/actual"
diff -u "$work/expected" "$work/actual"
