#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: `make fuzz`: each fuzz target for FUZZ_SECONDS, two at a time.
#
# What is new is merged into tests/fuzz/corpus afterwards, smallest inputs
# that keep the coverage; commit it then.  A crash leaves its input in
# B/fuzz-found and ends with status 1.
set -u
cd "$(dirname "$0")/../.." || exit
B=${B:-build}
seconds=${FUZZ_SECONDS:-600}
found=$B/fuzz-found
mkdir -p "$found"

one() {
	name=$(basename "$1" .c)
	mkdir -p "$found/$name" "tests/fuzz/corpus/$name"
	ASAN_OPTIONS=detect_leaks=1 "$B/tests/fuzz/$name" \
		-max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
		-artifact_prefix="$found/$name-" -print_final_stats=1 \
		-max_len="${FUZZ_MAX_LEN:-65536}" "$found/$name" \
		"tests/fuzz/corpus/$name" >"$found/$name.log" 2>&1
	status=$?
	if [ $status != 0 ]; then
		echo "FAILED $name:"
		tail -n 60 "$found/$name.log"
		return 1
	fi
	mkdir -p "$found/$name.min"
	"$B/tests/fuzz/$name" -merge=1 "tests/fuzz/corpus/$name" \
		"$found/$name" >"$found/$name.merge.log" 2>&1
	echo "ok $name: $(sed -n \
		's/^stat::number_of_executed_units: *//p' \
		"$found/$name.log") runs, $(find "tests/fuzz/corpus/$name" \
		-type f | wc -l) inputs kept"
}

bad=0
running=
for source in tests/fuzz/fuzz_*.c; do
	[ -e "$source" ] || continue
	one "$source" &
	running="$running $!"
	# shellcheck disable=SC2086
	set -- $running
	if [ $# -ge "${FUZZ_JOBS:-2}" ]; then
		wait "$1" || bad=1
		shift
		running=$*
	fi
done
for pid in $running; do
	wait "$pid" || bad=1
done
exit $bad
