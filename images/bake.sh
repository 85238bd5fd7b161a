#!/bin/sh
# SPDX-License-Identifier: MIT
# bake.sh BASE TAG [AGENT]: make image TAG: image BASE with the agent in it.
#
# BASE may be `scratch`.  AGENT is build/agent/sandmux-agent unless said.
# The image's label sandmux.agent is the agent's SHA-256.
set -eu
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	echo "usage: bake.sh BASE TAG [AGENT]" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
agent=${3:-$here/../build/agent/sandmux-agent}
if [ ! -f "$agent" ]; then
	echo "bake.sh: $agent: no such file; run make first" >&2
	exit 1
fi
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
install -m 0711 "$agent" "$context/sandmux-agent"
sum=$(sha256sum "$agent" | cut -d ' ' -f 1)
if ! docker build -q -f "$here/bake/Dockerfile" --build-arg "BASE=$1" \
	--label "sandmux.agent=$sum" -t "$2" "$context" \
	>"$context/log" 2>&1; then
	cat "$context/log" >&2
	exit 1
fi
