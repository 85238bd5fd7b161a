#!/bin/sh
# SPDX-License-Identifier: MIT
# coverage.sh: `make coverage`: what the corpora reach of common/*.c.
#
# Prints llvm-cov's table and fails if less than COVERAGE_MIN percent (90) of
# the lines of a decoder are reached, or if one is not in the table at all.
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
# Every file of common/ that reads what the other end has sent.
decoders="wire link link_hello link_input plain session session_control
session_flow session_out session_store bundle_receive filecopy"
# In seal.c, which also makes, keeps and wipes keys, these functions do.
opens="seal_unhex seal_derive seal_accept seal_open"
bad=0
for name in $decoders; do
	awk -v min="$min" -v name="$name" '
		$1 == name ".c" || $1 ~ "/" name "[.]c$" {
			sub(/%/, "", $10); seen++; reached = $10 + 0
		}
		END {
			if (seen != 1) {
				printf "%s.c: %d times in the report\n", name, seen
				exit 1
			}
			printf "%s.c: %s %% of its lines, %d wanted\n", name,
				reached, min
			exit reached < min
		}' "$out/report" || bad=1
done
# shellcheck disable=SC2086
"$cov" report -show-functions ${objects# -object } \
	-instr-profile="$out/all.profdata" common/seal.c >"$out/seal"
awk -v min="$min" -v names="$opens" '
	BEGIN { wanted = split(names, list); for (i in list) is[list[i]] }
	$1 in is { seen++; lines += $5; missed += $6 }
	END {
		if (seen != wanted) {
			printf "seal.c: %d of %d functions found\n", seen, wanted
			exit 1
		}
		reached = 100 - 100 * missed / lines
		printf "seal.c: %.2f %% of what opens, %d wanted\n", reached,
			min
		exit reached < min
	}' "$out/seal" || bad=1
exit $bad
