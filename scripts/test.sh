#!/bin/bash
# Installs what is missing, then runs every check of this tree, stage by stage.
usage() {
  cat <<'END'
usage: scripts/test.sh [--quick] [--long] [--only STAGE]... [--no-setup]

Stages, in order; the first that fails ends the run with exit code 1:
  format    clang-format 14 over the tracked C++ files
  arrows    which folder may include which (docs/guide/architecture.md)
  release   what is shipped: build, all tests, the examples, the installed tree
  clang     clang 14: thread-safety analysis of the libraries, and a short run of each fuzz target
  asan      build and tests under the address and undefined-behaviour sanitizers
  tsan      build and tests under the thread sanitizer
  docs      the API reference, warnings as errors

  --quick       only format, arrows and release
  --only STAGE  only this stage; may be repeated
  --long        the long versions: 10 minutes a fuzz target, and tests that repeat a fault many more times
  --no-setup    do not look for missing packages

Everything it makes is under build/; logs are in build/log/. It uses at most two cores.
END
}
cd "$(dirname "${BASH_SOURCE[0]}")/.." && . scripts/lib.sh

all_stages=(format arrows release clang asan tsan docs)
stages=()
setup=1 fuzz_seconds=10
while (($#)); do
  case $1 in
    --quick) stages=(format arrows release) ;;
    --only)
      [[ " ${all_stages[*]} " == *" ${2:-} "* ]] || die "--only takes one of: ${all_stages[*]}"
      stages+=("$2")
      shift
      ;;
    --long) export TENSORBROKER_LONG_TESTS=1 fuzz_seconds=600 ;;
    --no-setup) setup=0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
if ((${#stages[@]} == 0)); then stages=("${all_stages[@]}"); fi
if ((setup)); then bash scripts/setup.sh test; fi
# The tests start brokers of their own: one that the caller's environment names is none of them.
unset TENSORBROKER_SOCKET TENSORBROKER_DAEMON TENSORBROKER_CONFIG

tracked() {
  # Also in a checkout that belongs to another user, and in a tree that is no checkout.
  git -c safe.directory='*' ls-files -- "$@" 2> /dev/null || find . -path ./build -prune -o -type f \( -name '*.h' -o -name '*.cc' \) -print
}

# What the tests could leave behind: one line for each.
leftovers() {
  local directory exe target
  # Where a broker of somebody else runs (another checkout, an installed one), new files may be its own.
  if [[ -z $(foreign_brokers) ]]; then
    for directory in /dev/shm /run "${XDG_RUNTIME_DIR:-/run}"; do
      find "$directory" -mindepth 1 -maxdepth 1 \( -name 'tensorbroker*' -o -path '/dev/shm/*' \) -printf 'file %p\n' 2> /dev/null || true
    done
    find "$scratch" -mindepth 1 -printf 'file %p\n'
    find /tmp -mindepth 1 -maxdepth 1 -name 'tensorbroker*' -printf 'file %p\n'
  fi
  for exe in /proc/[0-9]*/exe; do
    target=$(readlink "$exe" 2> /dev/null) || continue
    if [[ $target == "$ROOT"/build/* ]]; then echo "process ${exe//[!0-9]/} $target"; fi
  done
}

foreign_brokers() {
  local exe target
  for exe in /proc/[0-9]*/exe; do
    target=$(readlink "$exe" 2> /dev/null) || continue
    if [[ ${target##*/} == tensorbrokerd && $target != "$ROOT"/build/* ]]; then echo "${exe//[!0-9]/}"; fi
  done
}

# Tests make their files in a directory of this run, which must be empty when they are done.
scratch=$(mktemp -d /tmp/tb.XXXXXX)
export TMPDIR=$scratch
before=$(leftovers | sort)
trap 'rm -rf "$scratch"' EXIT

check_leftovers() {
  local left deadline=$((SECONDS + 3))
  # An embedded broker ends a moment after the process that it served.
  while left=$(leftovers | sort | comm -13 <(echo "$before") -); [[ -n $left ]] && ((SECONDS < deadline)); do
    sleep 0.1
  done
  if [[ -n $(foreign_brokers) ]]; then
    echo "not checked for files left behind: other brokers run here (pid $(foreign_brokers | paste -sd ' '))"
  fi
  if [[ -n $left ]]; then
    printf 'left behind by the tests:\n%s\n' "$left"
    return 1
  fi
}

# Runs the preset's tests under the words of `under`; shows what failed, and ctest's closing lines.
under=()
run_tests() {
  local preset=$1 log=build/log/$1-test.log rc=0
  "${under[@]}" ctest --preset "$preset" -j "$JOBS" > "$log" 2>&1 < /dev/null || rc=$?
  if ((rc)); then
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ .*Passed)' "$log" | tail -n 300
  else
    sed -n '/tests passed/,$p' "$log"
  fi
  check_leftovers || return 1
  return "$rc"
}

stage_format() {
  mapfile -t files < <(tracked '*.h' '*.cc')
  clang-format-14 --dry-run -Werror "${files[@]}" || {
    echo "to mend it: clang-format-14 -i FILE"
    return 1
  }
  echo "${#files[@]} files"
}

stage_arrows() { python3 -B tests/arrows/arrows.py; }

stage_release() {
  configure release && build release && run_tests release
}

# One fuzz target for a while, from its seeds and what earlier runs found.
fuzz_one() {
  local name=${1##*/}
  local corpus=("build/fuzz/corpus/$name") seeds=tests/fuzz/corpus/${name%_fuzz}
  mkdir -p "${corpus[0]}"
  if [[ -d $seeds ]]; then corpus+=("$seeds"); fi
  if "$1" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$name-" "${corpus[@]}" > "build/log/$name.log" 2>&1 < /dev/null; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/log/$name.log") inputs, nothing found"
  else
    tail -n 40 "build/log/$name.log"
    echo "$name: failed; the input is build/fuzz/$name-*"
    return 1
  fi
}

stage_clang() {
  configure fuzz && build fuzz || return 1
  local targets=(build/fuzz/bin/*_fuzz) target
  [[ -x ${targets[0]} ]] || { echo "no fuzz target was built"; return 1; }
  export -f fuzz_one
  export fuzz_seconds
  printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$JOBS" bash -c 'fuzz_one "$0"' && check_leftovers
}

stage_asan() {
  configure asan && build asan && run_tests asan
}

# gcc 12's thread sanitizer cannot place its shadow where the kernel's address randomisation is strong.
find_tsan_launcher() {
  local probe=build/log/tsan-probe
  mkdir -p build/log
  echo 'int main() {}' | g++ -fsanitize=thread -x c++ - -o "$probe" || return 1
  local way
  for way in "" "setarch $(uname -m) -R"; do
    for _ in 1 2 3 4 5 6 7 8; do
      $way "$probe" > "$probe.log" 2>&1 || continue 2
    done
    read -ra under <<< "$way"
    return 0
  done
  cat "$probe.log"
  echo "the thread sanitizer does not run on this kernel: try  sysctl vm.mmap_rnd_bits=28"
  return 1
}

stage_tsan() {
  find_tsan_launcher || return 1
  local rc=0
  # The build runs the test binaries too, to list their tests.
  configure tsan && run_logged build/log/tsan-build.log "${under[@]}" cmake --build build/tsan -j "$JOBS" && run_tests tsan || rc=$?
  under=()
  return "$rc"
}

stage_docs() {
  configure release && build release --target docs && echo "build/release/docs/html/index.html"
}

took=()
begin=$SECONDS
mkdir -p build/log
for stage in "${stages[@]}"; do
  say "== $stage"
  start=$SECONDS
  if ! "stage_$stage"; then
    echo "FAILED: $stage, after $((SECONDS - start)) s (logs: build/log/)"
    exit 1
  fi
  took+=("$stage $((SECONDS - start)) s")
  echo "-- $stage: $((SECONDS - start)) s"
done
say "== all passed in $((SECONDS - begin)) s: $(printf '%s, ' "${took[@]}" | sed 's/, $//')"
