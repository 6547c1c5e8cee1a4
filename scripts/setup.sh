#!/bin/bash
# Installs, by name, the Debian 12 packages that tensorbroker needs and that are missing.
usage() {
  cat <<'END'
usage: scripts/setup.sh [run|test|bench]

Installs what is missing of the Debian packages that a step needs, and nothing else:
  run     to build the broker, tensorctl and the examples (the default)
  test    that, and what scripts/test.sh needs: GoogleTest, clang 14, doxygen, Python 3
  bench   that of `run`, and what scripts/bench.sh needs

Needs root, or sudo. Where nothing is missing it needs neither, no network, and a fraction of a second.
END
}
cd "$(dirname "${BASH_SOURCE[0]}")/.." && . scripts/lib.sh

run_packages=(
  g++ cmake ninja-build ccache pkg-config git
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libboost-dev
)
test_packages=(libgtest-dev libgmock-dev clang-14 clang-format-14 libclang-rt-14-dev python3 doxygen util-linux)
bench_packages=(python3 util-linux)

case ${1:-run} in
  run) packages=("${run_packages[@]}") ;;
  test) packages=("${run_packages[@]}" "${test_packages[@]}") ;;
  bench) packages=("${run_packages[@]}" "${bench_packages[@]}") ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

command -v dpkg-query > /dev/null || die "this is no Debian: install by hand: ${packages[*]}"
# dpkg-query prints a line for each package that it knows, and fails when it does not know one of them.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2> /dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<< "$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null || die "these packages are missing: ${missing[*]}
  Installing them needs root: run this as root, or install sudo, or run:  apt-get install ${missing[*]}"
  as_root=(sudo)
fi
say "Installing ${#missing[@]} packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120)
log=$(mktemp "${TMPDIR:-/tmp}/setup-apt.XXXXXX")
trap 'rm -f "$log"' EXIT
# A source that is not for us may be out of reach: what counts is whether the packages install.
run_logged "$log" "${apt[@]}" update || say "apt-get update failed; going on with the lists that are there"
run_logged "$log" "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
  die "apt-get could not install: ${missing[*]} (its output is above; is the network there, and is this Debian 12?)"
