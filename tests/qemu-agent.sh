#!/bin/sh
# SPDX-License-Identifier: MIT
# Stands in for an arm64 agent on a host of another kind: runs it under
# qemu-user.  The hash that the host knows is this script's, so that word is
# left out.  The Makefile puts the agent's path in.
for word in "$@"; do
	shift
	case $word in
	hash=*) ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec qemu-aarch64-static @AGENT@ "$@"
