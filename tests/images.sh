#!/bin/sh
# SPDX-License-Identifier: MIT
# images.sh [NAME...]: build the images that tests need and do not have.
#
# Made from nothing, no registry is asked:
#   sandmux-test-scratch:1   only tests/tools/pause, as /pause
#   sandmux-test-busybox:1   Debian's busybox-static, user 1000, /work
#   sandmux-test-debian:1    a small Debian root, with what Inspect's own
#                            checks want: ps, adduser, userdel, python3
#   sandmux-test-inspect:1   the same, user 1000, /sandbox: fit for openshell
# and each of them as NAME-baked:1 with the agent in it, built again when
# the agent has changed.  Without names: all of them.
set -eu
cd "$(dirname "$0")/.."
B=${B:-${SANDMUX_BUILD:-build}}
agent=$B/agent/sandmux-agent
pause=$B/tests/tools/pause
packages=adduser,procps,python3
root=${SANDMUX_DEBIAN_ROOT:-/var/tmp/sandmux-debian-$packages}
work=$(mktemp -d)
trap 'rm -rf "$work" "$work.log"' EXIT

# One at a time: two runs would make the same image twice.
if [ -z "${SANDMUX_IMAGES_LOCK:-}" ] && command -v flock >/dev/null; then
	export SANDMUX_IMAGES_LOCK=1
	rm -rf "$work"
	exec flock /tmp/sandmux-images.lock.$(id -u) sh "$0" "$@"
fi

# is NAME LABEL VALUE: the image is there and its label is VALUE
is() {
	[ "$(docker image inspect -f "{{index .Config.Labels \"$2\"}}" \
		"$1" 2>/dev/null)" = "$3" ]
}

sum() {
	cat "$@" | sha256sum | cut -d ' ' -f 1
}

# build NAME LABEL=VALUE: from $work, whose Dockerfile is on stdin
build() {
	cat >"$work/Dockerfile"
	if ! docker build -q --label "$2" -t "$1" "$work" >"$work.log" 2>&1
	then
		cat "$work.log" >&2
		exit 1
	fi
	rm -rf "${work:?}"/*
}

base_scratch() {
	made=$(sum "$pause" tests/images.sh)
	is sandmux-test-scratch:1 sandmux.made "$made" && return
	cp "$pause" "$work/pause"
	build sandmux-test-scratch:1 "sandmux.made=$made" <<-END
		FROM scratch
		COPY pause /pause
		CMD ["/pause"]
	END
}

base_busybox() {
	busybox=$(command -v busybox) || {
		echo "images.sh: busybox-static is not installed" >&2
		exit 1
	}
	made=$(sum "$busybox" tests/images.sh)
	is sandmux-test-busybox:1 sandmux.made "$made" && return
	mkdir -p "$work/root/bin" "$work/root/etc" "$work/root/usr/bin" \
		"$work/root/work" "$work/root/root"
	mkdir -m 1777 "$work/root/tmp"
	cp "$busybox" "$work/root/bin/busybox"
	for name in $("$busybox" --list); do
		[ "$name" = busybox ] || ln -s busybox "$work/root/bin/$name"
	done
	printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' \
		'user:x:1000:1000:user:/work:/bin/sh' >"$work/root/etc/passwd"
	printf '%s\n' 'root:x:0:' 'user:x:1000:' >"$work/root/etc/group"
	build sandmux-test-busybox:1 "sandmux.made=$made" <<-END
		FROM scratch
		COPY root /
		RUN ["/bin/busybox", "chown", "1000:1000", "/work"]
		ENV FROM_IMAGE=yes PATH=/usr/bin:/bin
		USER 1000:1000
		WORKDIR /work
		CMD ["sleep", "2147483647"]
	END
}

base_debian() {
	is sandmux-test-debian:1 sandmux.packages "$packages" && return
	if [ ! -x "$root/usr/bin/apt-get" ]; then
		echo "images.sh: making a Debian root in $root" >&2
		rm -rf "$root.new"
		if ! debootstrap --variant=minbase --include="$packages" \
			bookworm "$root.new" >"$root.log" 2>&1; then
			tail -n 20 "$root.log" >&2
			exit 1
		fi
		rm -rf "$root"
		mv "$root.new" "$root"
	fi
	tar -C "$root" --exclude ./var/cache/apt --exclude ./var/lib/apt/lists \
		-c . | docker import -c 'CMD ["sleep", "infinity"]' \
		-c "LABEL sandmux.packages=$packages" - \
		sandmux-test-debian:1 >/dev/null
}

base_inspect() {
	base_debian
	made=$(docker image inspect -f '{{.Id}}' sandmux-test-debian:1)
	is sandmux-test-inspect:1 sandmux.made "$made" && return
	build sandmux-test-inspect:1 "sandmux.made=$made" <<-END
		FROM sandmux-test-debian:1
		RUN useradd -u 1000 -m sandbox && mkdir -p /sandbox && \
			chown 1000:1000 /sandbox
		USER 1000
		WORKDIR /sandbox
	END
}

bake() {
	base=$(docker image inspect -f '{{.Id}}' "sandmux-test-$1:1")
	made=$(sum "$agent")
	is "sandmux-test-$1-baked:1" sandmux.agent "$made" &&
		is "sandmux-test-$1-baked:1" sandmux.base "$base" && return
	sh images/bake.sh "sandmux-test-$1:1" "sandmux-test-$1-baked:1" \
		"$agent"
	build "sandmux-test-$1-baked:1" "sandmux.base=$base" <<-END
		FROM sandmux-test-$1-baked:1
	END
}

[ $# -gt 0 ] || set -- scratch scratch-baked busybox busybox-baked debian \
	debian-baked
for name in "$@"; do
	kind=${name%-baked}
	case $kind in
	scratch|busybox|debian|inspect) ;;
	*) echo "images.sh: no image $name" >&2; exit 2 ;;
	esac
	"base_$kind"
	[ "$kind" = "$name" ] || bake "$kind"
done
