#!/bin/bash
# Runs the data-loader story as a test: check.sh BIN. Its own broker, its own shm directory; leaves nothing behind.
set -euo pipefail
bin=$1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/dataloader.XXXXXX")
shm=$(mktemp -d /dev/shm/tensorbroker-dataloader.XXXXXX)
broker=
finish() {
  [[ -z $broker ]] || kill "$broker" 2> /dev/null || true
  wait
  rm -rf "$scratch" "$shm"
}
trap finish EXIT
die() {
  printf 'dataloader: %s\n' "$1"
  cat "$scratch"/out "$scratch"/err 2> /dev/null || true
  exit 1
}
run() { timeout 100 "$bin/dataloader" "$@" > "$scratch/out" 2> "$scratch/err"; }

# With a broker of its own, whose memory is files: right, and no name is left.
mkfifo "$scratch/log"
"$bin/tensorbrokerd" --socket "$scratch/broker.sock" --memory shm --shm-dir "$shm" > /dev/null 2> "$scratch/log" &
broker=$!
exec 3< "$scratch/log"
while IFS= read -r line <&3; do
  printf '%s\n' "$line" >> "$scratch/broker.log"
  if [[ $line == *serving* ]]; then break; fi
done
cat <&3 >> "$scratch/broker.log" &
run --socket "$scratch/broker.sock" || die "the story failed"
cat "$scratch/out"
awk '$1 == "accuracy:" { good = $2 >= 0.93 && $2 <= 1 } END { exit !good }' "$scratch/out" || die "accuracy under 0.93"
grep -q '^ *digits/worker[0-3]/epoch0/batch' "$scratch/out" || die "tensorctl ls shows no live batch"
"$bin/tensorctl" --socket "$scratch/broker.sock" ls | grep -q digits/ && die "names are left"
first=$(grep '^accuracy:' "$scratch/out")

# With a private broker, whose memory has no names; the same seed gives the same accuracy with other numbers of workers.
run --workers 3 --ahead 1 || die "the story with a private broker failed"
[[ $(grep '^accuracy:' "$scratch/out") == "$first" ]] || die "the accuracy differs: $first"

# A worker that dies is named, and nobody hangs.
exec 4< <(exec "$bin/dataloader" --socket "$scratch/broker.sock" --epochs 1000000 2> "$scratch/err")
story=$!
while IFS= read -r line <&4; do
  if [[ $line == 'workers: '* ]]; then
    kill -KILL "${line##* }"
    break
  fi
done
rc=0
wait "$story" || rc=$?
((rc == 1)) || die "with a dead worker the exit code is $rc, not 1"
grep -q 'worker 3 (pid [0-9]*) was killed by signal 9' "$scratch/err" || die "the dead worker is not named"

rc=0
run --data "$scratch" || rc=$?
((rc == 1)) || die "without data the exit code is $rc, not 1"
rc=0
run --batch none || rc=$?
((rc == 2)) || die "for wrong usage the exit code is $rc, not 2"
run --help && grep -q -- --workers "$scratch/out" || die "--help does not help"

kill "$broker"
rc=0
wait "$broker" || rc=$?
broker=
((rc == 0)) || die "the broker ended with exit code $rc"
[[ -z $(find "$shm" -mindepth 1) ]] || die "something is left in the shm directory: $(find "$shm" -mindepth 1)"
echo "dataloader: all checks passed"
