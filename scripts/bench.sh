#!/bin/bash
# Builds the benchmarks and runs them: what each thing costs against a floor that anyone would write.
usage() {
  cat <<'END'
usage: scripts/bench.sh [--quick] [--peers] [--json FILE] [--no-setup] [FILTER]...

Runs the benchmarks whose name contains a FILTER (all where there is none) and prints a line for each:
  ours, floor   medians over the rounds
  ratio         the median of the rounds' ratios, ours / floor
  budget        what the ratio (or, where there is no floor, the value) may be at most
  holds         yes, NO, or "-": no budget, or a floor that spread over 25 % and so proves nothing
  spread        (ninth decile - first decile) / median of the rounds, ours / floor

Processes are pinned: clients to core 0, servers to core 1. docs/benchmarks.md has the questions and a machine's answers.

  --quick      fewer rounds, operations and bytes: to see that it works; its figures are for nobody
  --peers      also what users would pick instead, where it is installed (torch); the rest is named as skipped
  --json FILE  the results as JSON too
  --no-setup   do not look for missing packages

A whole run takes about 10 minutes, 18 GiB of memory and 9 GiB of /dev/shm; a quick one 1 minute and 2 GiB.
END
}
cd "$(dirname "${BASH_SOURCE[0]}")/.." && . scripts/lib.sh

setup=1 peers=0 json=
arguments=()
while (($#)); do
  case $1 in
    --quick) arguments+=(--quick) ;;
    --peers) peers=1 ;;
    --json)
      [[ -n ${2:-} ]] || die "--json takes a file"
      json=$2
      shift
      ;;
    --no-setup) setup=0 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
if [[ -n $json ]]; then arguments+=(--json "$json"); fi
if ((setup)); then bash scripts/setup.sh bench; fi
unset TENSORBROKER_SOCKET TENSORBROKER_DAEMON TENSORBROKER_CONFIG

configure release
build release --target tensorbroker_bench floor_echo tensorbrokerd
build/release/bin/tensorbroker_bench "${arguments[@]}"

if ((peers)); then
  echo
  if python3 -c 'import torch' 2> /dev/null; then
    taskset -c 0 python3 bench/peers/torch_copies.py
  else
    echo "peers: skipped, torch is not installed for $(command -v python3 || echo python3)"
  fi
fi
