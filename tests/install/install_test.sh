#!/bin/bash
# Installs the built tree to a directory of its own, builds a consumer against it by find_package and by pkg-config, and
# runs both with the installed broker.
#   install_test.sh BUILD_DIR SOURCE_DIR CXX
set -euo pipefail
build=$1 source=$2 cxx=$3
root=$(mktemp -d "${TMPDIR:-/tmp}/install-test.XXXXXX")
trap 'rm -rf "$root"' EXIT

fail() {
  echo "FAILED: $*"
  exit 1
}

cmake --install "$build" --prefix "$root/first" > "$root/install.log" || fail "cmake --install: $(tail -n 5 "$root/install.log")"
# A package must not know where it was installed: packagers and users move it.
mv "$root/first" "$root/prefix"
prefix=$root/prefix
grep -rlF "$source" "$prefix/include" "$prefix"/lib*/ --include='*.cmake' --include='*.pc' --include='*.h' &&
  fail "an installed file names the source tree"

for header in client/client.h client/inspector.h client/tensor.h tensor/header.h base/status.h base/version.h proto/records.h; do
  [[ -f $prefix/include/tensorbroker/$header ]] || fail "include/tensorbroker/$header was not installed"
done
find "$prefix/include" -type d \( -name ipc -o -name server -o -name storage -o -name cli -o -name v1 \) | grep . &&
  fail "headers of the inside were installed"
grep -rnE '#include *[<"](grpc|google/|nlohmann|CLI/|boost|spdlog|.*\.pb\.h)' "$prefix/include" && fail "an installed header leaks"
for program in tensorbrokerd tensorctl; do
  "$prefix/bin/$program" --version || fail "$program --version"
done

expected="column 2 5 of a tensor with 24 bytes"
check() {
  local output
  output=$(env -u TENSORBROKER_SOCKET PATH="$prefix/bin:$PATH" "$2") || fail "the consumer by $1 ended with $?"
  [[ $output == "$expected" ]] || fail "the consumer by $1 said: $output"
  echo "by $1: $output"
}

cmake -S "$source/tests/install/consumer" -B "$root/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" > "$root/cmake.log" 2>&1 || fail "find_package: $(cat "$root/cmake.log")"
cmake --build "$root/cmake" > "$root/cmake.log" 2>&1 || fail "building by find_package: $(cat "$root/cmake.log")"
check find_package "$root/cmake/consumer"

pc=$(echo "$prefix"/lib*/pkgconfig "$prefix"/lib/*/pkgconfig)
export PKG_CONFIG_PATH=${pc// /:}
flags=$(pkg-config --cflags --libs tensorbroker) || fail "pkg-config does not know tensorbroker"
# shellcheck disable=SC2086  # the flags are words
"$cxx" -std=c++20 -O1 "$source/tests/install/consumer/consumer.cc" $flags -o "$root/consumer" || fail "building by pkg-config"
check pkg-config "$root/consumer"
