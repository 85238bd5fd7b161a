#!/bin/sh
# SPDX-License-Identifier: MIT
# coverage.sh: `make coverage`: what the corpora reach of common/*.c.
#
# Prints llvm-cov's table and fails if less than COVERAGE_MIN percent (90) of
# the lines of a decoder are reached: messages, records, hello, the client
# socket, sessions.
set -eu
cd "$(dirname "$0")/../.."
out=${B:-build}/coverage-found
programs=${B:-build}/tests/coverage
min=${COVERAGE_MIN:-90}
clang=${CLANG:-clang}
rm -rf "$out"
mkdir -p "$out"
# llvm-cov goes by clang's own version where it has no plain name.
tool() {
	command -v "$1" || command -v "$1-$("$clang" -dumpversion |
		cut -d. -f1)"
}
cov=$(tool llvm-cov) profdata=$(tool llvm-profdata)

objects=
for source in tests/fuzz/fuzz_*.c; do
	name=$(basename "$source" .c)
	LLVM_PROFILE_FILE=$out/$name.raw "$programs/$name" \
		"tests/fuzz/corpus/$name" >/dev/null 2>&1
	objects="$objects -object $programs/$name"
done
"$profdata" merge -o "$out/all.profdata" "$out"/*.raw
# shellcheck disable=SC2086
"$cov" report ${objects# -object } -instr-profile="$out/all.profdata" \
	common/*.c >"$out/report"
cat "$out/report"
awk -v min="$min" '$1 ~ /(wire|link|link_hello|plain|session.*)\.c$/ {
	sub(/%/, "", $10); seen++
	printf "%s: %s %% of its lines, %d wanted\n", $1, $10, min
	bad = bad || $10 + 0 < min
} END { exit bad || seen < 7 }' "$out/report"
