#!/bin/sh
# SPDX-License-Identifier: MIT
# demo.sh: the main job on this machine, for real; `make demo` calls it.
#
# One target after the other: a command, a 256 MiB file there and back, 1000
# commands beside plain process starts.  Where Docker is, the same in a
# container made from nothing but two static programs.  Leaves nothing.
set -eu
cd "$(dirname "$0")/.."
B=${B:-build}
case $B in /*) ;; *) B=$PWD/$B ;; esac
sandmux=$B/host/sandmux
size=${DEMO_MIB:-256}
count=${DEMO_COMMANDS:-1000}
box=sandmux-demo-$$

work=$(mktemp -d)
SANDMUX_DIR=$work/run
XDG_STATE_HOME=$work/state
export SANDMUX_DIR XDG_STATE_HOME
unset BASH_ENV ENV
finish() {
	"$sandmux" stop >/dev/null 2>&1 || :
	if [ -n "${docker:-}" ]; then
		docker rm -f -v "$box" >/dev/null 2>&1 || :
		docker rmi sandmux-demo sandmux-demo-base >/dev/null 2>&1 || :
	fi
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

now() {
	date +%s%N
}

say() {
	printf '\n\033[1m%s\033[0m\n' "$*"
}

# shown COMMAND...: print it as typed, then run it
shown() {
	line='$ sandmux'
	for word in "$@"; do
		case $word in
		*[!A-Za-z0-9_./:=-]*) line="$line '$word'" ;;
		*) line="$line $word" ;;
		esac
	done
	printf '%s\n' "$line"
	"$sandmux" "$@"
}

# rate START END: MB/s of the big file
rate() {
	echo "$((size * 1048576 * 1000 / ($2 - $1 + 1)))"
}

# loop COUNT COMMAND...: microseconds for each
loop() {
	n=$1
	shift
	i=0
	start=$(now)
	while [ $i -lt "$n" ]; do
		"$@" >/dev/null </dev/null || {
			echo "failed: $*" >&2
			exit 1
		}
		i=$((i + 1))
	done
	end=$(now)
	echo $(((end - start) / n / 1000))
}

# copies TARGET PATH
copies() {
	a=$(now)
	shown cp "$work/there" "$1:$2"
	b=$(now)
	shown cp "$1:$2" "$work/back"
	c=$(now)
	sent=$(sha256sum <"$work/there") got=$(sha256sum <"$work/back")
	echo "sent     ${sent%% *}"
	echo "returned ${got%% *}"
	if [ "$sent" != "$got" ]; then
		echo "the hashes differ" >&2
		exit 1
	fi
	rm -f "$work/back"
	echo "$size MiB there: $(rate "$a" "$b") MB/s, back: $(rate "$b" "$c"
		) MB/s"
}

echo "making a file of $size MiB"
head -c "$((size * 1048576))" /dev/urandom >"$work/there"

say "local: the agent beside us"
shown exec local -- sh -c 'echo hello from $(uname -s), uid $(id -u)'
status=0
shown exec local -- sh -c 'exit 7' || status=$?
echo "exit status $status"
copies local "$work/copy"
rm -f "$work/copy"
plain=$(loop "$count" /bin/true)
ours=$(loop "$count" "$sandmux" exec local -- /bin/true)
echo "$count commands: $ours us each as \`sandmux exec\`," \
	"$plain us each as a plain process"

docker=
if ! command -v docker >/dev/null; then
	say "docker: not installed, left out"
elif ! docker version >/dev/null 2>&1; then
	say "docker: no server answers, left out"
else
	docker=yes
	say "docker: a container of two static programs, the agent and /pause"
	mkdir "$work/base"
	cp "$B/tests/tools/pause" "$work/base/pause"
	printf 'FROM scratch\nCOPY pause /pause\nCMD ["/pause"]\n' \
		>"$work/base/Dockerfile"
	docker build -q -t sandmux-demo-base "$work/base" >/dev/null 2>&1
	sh images/bake.sh sandmux-demo-base sandmux-demo \
		"$B/agent/sandmux-agent"
	docker run -d --name "$box" --network none sandmux-demo >/dev/null
	shown exec "docker:$box" -- /pause echo "hello from nothing"
	status=0
	shown exec "docker:$box" -- /pause exit 7 || status=$?
	echo "exit status $status"
	copies "docker:$box" /copy
	plain=$(loop 20 docker exec "$box" /pause true)
	ours=$(loop "$count" "$sandmux" exec "docker:$box" -- /pause true)
	echo "$count commands: $ours us each as \`sandmux exec\`," \
		"$plain us each as \`docker exec\` (20 of them)"
fi
say "done"
