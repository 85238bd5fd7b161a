#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh PURPOSE...: install what a purpose lacks, on Debian and its kin.
#
# Called by the Makefile before anything is built.  Says nothing and takes no
# time when all is there; elsewhere than on Debian it only lists what it
# would have installed, and the build says what is missing.
set -u

packages() {
	case $1 in
	build)	echo gcc libc6-dev binutils make musl-tools libsodium-dev \
			libyaml-dev ;;
	test)	echo python3 python3-pytest python3-pytest-timeout \
			python3-pytest-xdist \
			libcmocka-dev busybox-static \
			debootstrap strace procps btrfs-progs podman ;;
	lint)	echo clang-tidy libcmocka-dev ;;
	fuzz)	echo clang llvm libclang-rt-dev ;;
	inspect) echo python3 python3-venv libyaml-dev ;;
	arm64)	echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
			qemu-user-static musl-dev:arm64 libsodium-dev:arm64 ;;
	*)	echo "deps.sh: unknown purpose: $1" >&2; exit 2 ;;
	esac
}

installed() {
	case $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) in
	installed*) return 0 ;;
	esac
	return 1
}

wanted=
for purpose in "$@"; do
	wanted="$wanted $(packages "$purpose")" || exit
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	[ -z "$wanted" ] ||
		echo "not Debian: these packages are needed:$wanted" >&2
	exit 0
fi

lacking=
foreign=
for package in $wanted; do
	installed "$package" || lacking="$lacking $package"
	case $package in *:arm64) foreign=1 ;; esac
done
[ -n "$lacking" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	as_root=sudo
	if ! command -v sudo >/dev/null; then
		echo "install as root, or with sudo:$lacking" >&2
		exit 1
	fi
fi

echo "installing:$lacking" >&2
if [ -n "$foreign" ] && [ "$(dpkg --print-architecture)" != arm64 ] &&
	! dpkg --print-foreign-architectures | grep -qx arm64; then
	$as_root dpkg --add-architecture arm64 || exit
	$as_root apt-get -qq update || true
fi
log=$(mktemp) || exit
trap 'rm -f "$log"' EXIT
install() {
	# shellcheck disable=SC2086
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
		-o DPkg::Lock::Timeout=300 --no-install-recommends \
		install $lacking >"$log" 2>&1 </dev/null
}
install || { $as_root apt-get -qq -o DPkg::Lock::Timeout=300 update &&
	install; } || {
	cat "$log" >&2
	echo "could not install:$lacking" >&2
	exit 1
}
