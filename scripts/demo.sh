#!/bin/bash
# The data-loader story on a fresh machine: install, build, start a broker, run, and show that nothing is left.
usage() {
  cat <<'END'
usage: scripts/demo.sh [--build-only] [-- OPTION...]

On a fresh Debian 12, as root or as a user with sudo:
  1. installs the packages that are missing, by name (scripts/setup.sh run);
  2. configures and builds the broker, tensorctl and the example, in build/release (log: build/demo.log);
  3. starts a broker of its own, on a private socket, with its memory in files under /dev/shm;
  4. runs the data-loader story: four worker processes read 1,797 images of digits, shuffle, normalise and fill shared
     float32 batches; a trainer process attaches to them without a copy and trains a softmax classifier. It shows
     `tensorctl ls` while the Storages are live, and prints the accuracy on held-out digits, the bytes that crossed
     the socket, the bytes shared, and the time a batch;
  5. stops the broker, and checks that nothing is left in the shm directory.

The first run takes some minutes, most of them the compiler's. A second one needs no network and starts within seconds.

  --build-only   stop after step 2
  -- OPTION...   options for the example: `-- --workers 2 --epochs 10`; `-- --help` lists them

Exit code: 0; 1 when a step failed; 2 for wrong usage.
END
}
cd "$(dirname "${BASH_SOURCE[0]}")/.." && . scripts/lib.sh

build_only=0
while (($#)); do
  case $1 in
    --build-only) build_only=1 ;;
    --) shift; break ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

say "== packages"
bash scripts/setup.sh run

say "== build"
log=build/demo.log
mkdir -p build
# Compiles are counted; a terminal sees the count move, a log sees each fifth of the way.
progress() {
  local line last=0
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [[ -t 1 ]]; then
      printf '\r   %s of %s' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    elif ((BASH_REMATCH[1] * 5 / BASH_REMATCH[2] > last)); then
      last=$((BASH_REMATCH[1] * 5 / BASH_REMATCH[2]))
      printf '   %s of %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    fi
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}
failed() {
  show_failure "$log"
  die "$1"
}
# A directory that has been configured, by test.sh for instance, is used as it is; a new one leaves out the tests and
# benchmarks, which would need more packages.
if ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" build/release/CMakeCache.txt || [[ ! -f build/release/build.ninja ]]; then
  rm -rf build/release
  cmake --preset release -DTENSORBROKER_TESTS=OFF -DTENSORBROKER_BENCH=OFF > "$log" 2>&1 < /dev/null || failed "cmake failed"
fi
NINJA_STATUS='[%f/%t] ' cmake --build build/release -j "$JOBS" --target tensorbrokerd tensorctl dataloader 2>&1 < /dev/null |
  tee "$log" | progress || failed "the build failed"
echo "   build/release/bin: tensorbrokerd, tensorctl, dataloader"
if ((build_only)); then exit 0; fi

bin=$ROOT/build/release/bin
scratch=$(mktemp -d "${TMPDIR:-/tmp}/demo.XXXXXX")
instance=demo-$$
shm=/dev/shm/tensorbroker-$EUID-$instance
broker=
finish() {
  if [[ -n $broker ]]; then
    kill "$broker" 2> /dev/null || true
    wait "$broker" 2> /dev/null || true
  fi
  rm -rf "$scratch"
}
trap finish EXIT

say "== broker"
export TENSORBROKER_SOCKET=$scratch/broker.sock
"$bin/tensorbrokerd" --socket "$TENSORBROKER_SOCKET" --instance "$instance" --memory shm > "$scratch/broker.log" 2>&1 < /dev/null &
broker=$!
deadline=$((SECONDS + 20))
until "$bin/tensorctl" info > "$scratch/info" 2> "$scratch/error"; do
  if ! kill -0 "$broker" 2> /dev/null || ((SECONDS > deadline)); then
    cat "$scratch/broker.log" "$scratch/error" >&2
    die "the broker did not start"
  fi
  sleep 0.1
done
sed 's/^/   /' "$scratch/info"

say "== the data-loader story"
"$bin/dataloader" --socket "$TENSORBROKER_SOCKET" --data "$ROOT/examples/data" "$@" < /dev/null

say "== afterwards"
kill -TERM "$broker"
rc=0
wait "$broker" || rc=$?
broker=
if ((rc)); then
  cat "$scratch/broker.log" >&2
  die "the broker ended with exit code $rc"
fi
left=$(find "$shm" -mindepth 1 2> /dev/null || true)
if [[ -n $left ]]; then
  printf '%s\n' "$left" >&2
  die "files are left in $shm"
fi
echo "   the broker has stopped; nothing is left in $shm"
