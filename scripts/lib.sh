# shellcheck shell=bash
# What the scripts share; sourced after `cd` to the root of the tree. Bash 5, Debian 12.
set -euo pipefail
export LC_ALL=C.UTF-8
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}  # without it ccache passes precompiled headers by

ROOT=$PWD
JOBS=$(nproc)
if ((JOBS > 2)); then JOBS=2; fi

# A heading on a terminal is bold, elsewhere plain.
say() {
  if [[ -t 1 ]]; then printf '\033[1m%s\033[0m\n' "$*"; else printf '%s\n' "$*"; fi
}

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# show_failure LOG: what matters of a failed build's log, which is from ninja's first FAILED on, or its end.
show_failure() {
  {
    printf -- '---- from %s:\n' "$1"
    if grep -q '^FAILED: ' "$1"; then sed -n '/^FAILED: /,$p' "$1" | head -n 80; else tail -n 60 "$1"; fi
  } >&2
}

# run_logged LOG CMD...: silent unless it fails.
run_logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" > "$log" 2>&1 < /dev/null; then
    show_failure "$log"
    return 1
  fi
}

# Configures build/PRESET. A directory that belongs to another checkout (one that was moved or copied) is made anew.
configure() {
  local preset=$1 cache=build/$1/CMakeCache.txt
  shift
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$cache"; then
    rm -rf "build/$preset"
  fi
  run_logged "build/log/$preset-configure.log" cmake --preset "$preset" "$@"
}

build() {
  local preset=$1
  shift
  run_logged "build/log/$preset-build.log" cmake --build "build/$preset" -j "$JOBS" "$@"
}
