#!/bin/sh
# SPDX-License-Identifier: MIT
# venv.sh: make $B/inspect/venv, a virtual environment with what
# tests/inspect/requirements.txt says: Debian has no inspect-ai.
#
# Called by the Makefile, beside the compiling.  Says nothing and takes no
# time when it is as it should be.
set -u
cd "$(dirname "$0")/../.." || exit
B=${B:-build}
python=${PYTHON:-/usr/bin/python3}
list=tests/inspect/requirements.txt
at=$B/inspect

want=$("$python" -V 2>&1; cat "$list")
[ "$want" = "$(cat "$at/stamp" 2>/dev/null)" ] && exit
echo "installing Inspect in $at/venv" >&2
rm -rf "$at"
mkdir -p "$at"
if ! { "$python" -m venv "$at/venv" && "$at/venv/bin/python" -m pip \
	install -q --disable-pip-version-check -r "$list"; } \
	>"$at/log" 2>&1 </dev/null
then
	cat "$at/log" >&2
	echo "could not install what $list says" >&2
	exit 1
fi
printf '%s\n' "$want" >"$at/stamp"
