#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh: every test; `make check` calls it.  Programs run several at a time,
# and so do the files of a pytest suite (most tests wait), two suites at once;
# the tests of a file run one by one.
#
# The last line is "N passed, N failed", and ", N skipped" where there were
# any; the exit status is 0 only if none failed and some passed.
# B: the build directory.  PYTHON: the one with pytest; tests/inspect has its
# own in B/inspect/venv.  SANDMUX_LONG=1: the full counts.
# SUITES: only these directories of pytest suites.  JOBS: how many at a time;
# two for each processor.
set -u
cd "$(dirname "$0")/.." || exit
B=${B:-build}
PYTHON=${PYTHON:-/usr/bin/python3}
case $B in /*) ;; *) B=$PWD/$B ;; esac
SANDMUX_BUILD=$B
export SANDMUX_BUILD SANDMUX_LONG="${SANDMUX_LONG:-}"
# LeakSanitizer cannot look into processes that are not dumpable.
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export ASAN_OPTIONS UBSAN_OPTIONS
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

work=$(mktemp -d "${TMPDIR:-/tmp}/sandmux-check.XXXXXX") || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0
long=${SANDMUX_LONG:+10}
JOBS=${JOBS:-$((2 * $(nproc 2>/dev/null || echo 1)))}

# count WORD FILE: the sum of cmocka's "[  WORD  ] N test(s)" lines
count() {
	sed -n "s/^\[  $1 \] \([0-9][0-9]*\) test.*/\1/p" "$2" |
		awk '{ n += $1 } END { print n + 0 }'
}

# finish NAME: one test program's counts
finish() {
	log=$work/$1.log
	status=$(cat "$work/$1.status" 2>/dev/null)
	p=$(count 'PASSED ' "$log") f=$(count 'FAILED ' "$log")
	s=$(count 'SKIPPED' "$log")
	if [ "$status" = 0 ] && [ "$p$f$s" = 000 ]; then
		p=1
	elif [ "$status" = 77 ] && [ "$p$f$s" = 000 ]; then
		s=1
	elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [ "$f" != 0 ]; then
		echo "FAILED $1 (status $status)"
		tail -n 200 "$log"
	elif [ "$status" = 77 ]; then
		echo "skipped $1: $(tail -n 1 "$log")"
	else
		echo "ok $1"
	fi
}

# programs: every unit test, and every fuzz target over its corpus
programs() {
	mkdir "$work/unit" "$work/replay"
	for source in tests/unit/test_*.c; do
		echo "unit/$(basename "$source" .c)"
	done >"$work/programs"
	for source in tests/fuzz/fuzz_*.c; do
		echo "replay/$(basename "$source" .c)"
	done >>"$work/programs"
	# shellcheck disable=SC2016
	xargs -P "$JOBS" -n 1 sh -c '
		corpus=
		case $4 in replay/*) corpus=tests/fuzz/corpus/${4#*/} ;; esac
		timeout -k 10 "$3" "$2/tests/$4" $corpus >"$1/$4.log" 2>&1 \
			</dev/null
		echo $? >"$1/$4.status"' \
		run.sh "$work" "$B" "$((300 * ${long:-1}))" <"$work/programs"
	while read -r name; do
		finish "$name"
	done <"$work/programs"
}

# suite DIRECTORY: the pytest files in it; its log and counts in $work/NAME.*
suite() {
	of=$work/$(basename "$1")
	with=$PYTHON
	[ "$1" != tests/inspect ] || with=$B/inspect/venv/bin/python
	timeout -k 10 "$((2400 * ${long:-1}))" "$with" -m pytest -q -rsx \
		-p no:cacheprovider -o "junit_family=xunit2" \
		-n "$JOBS" --dist loadfile \
		-o "timeout=$((180 * ${long:-1}))" \
		--junitxml="$of.xml" "$1" </dev/null >"$of.log" 2>&1
	status=$?
	# 5: no test there at all
	[ $status = 5 ] && echo 0 0 0 >"$of.counts" && return
	# shellcheck disable=SC2046
	set -- $("$PYTHON" - "$of.xml" <<'END'
import sys
import xml.etree.ElementTree as tree

try:
    suites = list(tree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, tree.ParseError):
    print(0, 1, 0)
    sys.exit()
total, bad, skipped = (
    sum(sum(int(s.get(k, 0)) for k in keys) for s in suites)
    for keys in (["tests"], ["failures", "errors"], ["skipped"]))
print(max(total - bad - skipped, 0), bad, skipped)
END
)
	[ $status != 0 ] && [ "$2" = 0 ] && set -- "$1" 1 "$3"
	echo "$@" >"$of.counts"
}

# told DIRECTORY: what its suite said
told() {
	echo "== $1"
	cat "$work/$(basename "$1").log"
	read -r p f s <"$work/$(basename "$1").counts" || p=0 f=1 s=0
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# The first suite, which takes longest, runs beside all others.
[ -n "${SUITES:-}" ] || programs
# shellcheck disable=SC2046
set -- ${SUITES:-$(find tests -name 'test_*.py' -exec dirname {} + | sort -u)}
first=$1
suite "$first" &
shift
for found in "$@"; do
	suite "$found"
	told "$found"
done
wait
told "$first"

line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
