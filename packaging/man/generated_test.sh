#!/bin/bash
# The generated files are there, name the commands, and are taken by what reads them, where that is installed.
set -euo pipefail
build=$1
man=$build/packaging/man
completions=$build/packaging/completions
fail() {
  echo "$*" >&2
  exit 1
}
for file in "$man"/tensorctl.1 "$man"/tensorbrokerd.8 "$completions"/tensorctl.{bash,zsh,fish}; do
  [[ -s $file ]] || fail "$file is empty or missing"
done
for command in info ls stat who put get print wait rename rm watch doctor serve stop run; do
  for file in "$man"/tensorctl.1 "$completions"/tensorctl.{bash,zsh,fish}; do
    grep -qw -- "$command" "$file" || fail "$file does not name $command"
  done
done
for option in capacity memory shm socket instance config; do
  grep -q -- "$option" "$man/tensorbrokerd.8" || fail "tensorbrokerd.8 does not name --$option"
done
bash -n "$completions/tensorctl.bash"
if command -v zsh > /dev/null; then zsh -n "$completions/tensorctl.zsh"; fi
if command -v fish > /dev/null; then fish -n "$completions/tensorctl.fish"; fi
if command -v groff > /dev/null; then
  for page in "$man"/tensorctl.1 "$man"/tensorbrokerd.8; do
    warnings=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
    [[ -z $warnings ]] || fail "$page: $warnings"
  done
fi
