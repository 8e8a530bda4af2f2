#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the README's program equals examples/readme.cc byte for byte and prints the output
# that the README shows.
set -euo pipefail
awk '/^```cpp$/ {on = 1; next} /^```$/ {on = 0} on' README.md > "$TEST_TMPDIR/program.cc"
cmp "$TEST_TMPDIR/program.cc" examples/readme.cc
output=$(examples/readme)
[ -n "$output" ] && grep -qxF "$output" README.md || { echo "README.md does not say: $output"; exit 1; }
