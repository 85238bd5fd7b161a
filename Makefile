# SPDX-License-Identifier: MIT
# sandmux: see README.md.  One GNU Makefile, no configure.
#
# make            build/host/sandmux, with build/agent/sandmux-agent inside
# make wheel      the Python package with the program inside
# make check      everything that CI runs; ends with "N passed, N failed"
# make B=DIR      build into DIR instead of build
# make V=1        show the commands
# config.mak      may set any variable of the first block

-include config.mak

B ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CC = cc
CLANG ?= clang
MUSL_CC ?= musl-gcc
ARM64_CC ?= aarch64-linux-gnu-gcc
ARM64_TRIPLE ?= aarch64-linux-gnu
PYTHON ?= /usr/bin/python3
OPT ?= -O2
AGENT_OPT ?= -Os
AGENT_SIZE_MAX ?= 307200
FUZZ_SECONDS ?= 600
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

VERSION := 0.1.0

ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(JOBS)
endif
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:

Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)")

all: agent host

WARN := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wconversion
DEFS := -D_GNU_SOURCE -DSANDMUX_VERSION='"$(VERSION)"'
BASE_FLAGS := -std=c17 $(WARN) $(DEFS) -I. -Icommon -g -fno-strict-aliasing

# ---- sources -----------------------------------------------------------

COMMON := $(sort $(wildcard common/*.c))
AGENT := $(sort $(wildcard agent/*.c)) $(COMMON)
HOST := $(sort $(wildcard host/*.c)) $(COMMON)
HEADERS := $(wildcard common/*.h agent/*.h host/*.h)

# ---- what has to be installed ------------------------------------------

# `make check` and the like install what they lack before anything is built.
DEPS_check := build test inspect
DEPS_check-long := build test inspect
DEPS_check-sanitize := build test
DEPS_demo := build
DEPS_lint := build lint
DEPS_fuzz := build fuzz
DEPS_coverage := build fuzz
DEPS_bench := build test inspect
DEPS_sanitize := build
DEPS_images := build test
DEPS_agent-arm64 := arm64
DEPS_wheel := build inspect $(if $(filter no,$(WHEEL_ARM64)),,arm64)
DEPS_inspect-venv := inspect
DEPS_check-arm64 := build test arm64
DEPS_deps := build test lint fuzz
WANTED := $(sort $(foreach goal,$(MAKECMDGOALS),$(DEPS_$(goal))))
NEED := $(if $(WANTED),$(B)/deps)

.PHONY: all deps $(B)/deps
deps: $(B)/deps
$(B)/deps:
	@sh tests/deps.sh $(WANTED)

# ---- variants: the same sources, compiled in several ways --------------

# $(call variant,DIRECTORY,COMMAND,NEEDS): DIRECTORY/x/y.o from x/y.c and
# DIRECTORY/x/y.S.o from x/y.S; an object may have an INC of its own.
INC :=
define variant
$(1)/%.o: %.c Makefile $(3) | $$(NEED)
	@mkdir -p $$(@D)
	$$(call say,CC $$@)
	$$(Q)$(2) $$(INC) -MMD -MP -c -o $$@ $$<
$(1)/%.S.o: %.S Makefile $(3) | $$(NEED)
	@mkdir -p $$(@D)
	$$(call say,CC $$@)
	$$(Q)$(2) $$(INC) -MMD -MP -c -o $$@ $$<
endef

# $(call objects,DIRECTORY,SOURCES)
objects = $(patsubst %.S,$(1)/%.S.o,$(patsubst %.c,$(1)/%.o,$(2)))

# $(call archive,ARCHIVE,OBJECTS)
define archive
$(1): $(2)
	@rm -f $$@
	$$(Q)ar rc $$@ $(2)
endef

SODIUM := $(B)/include/.sodium
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
AGENT_CFLAGS := $(BASE_FLAGS) $(AGENT_OPT) -ffunction-sections \
	-fdata-sections -fno-asynchronous-unwind-tables -fno-ident -fno-pie \
	-DWIRE_NO_TAGS
HOST_CFLAGS := $(BASE_FLAGS) $(OPT) -fstack-protector-strong \
	-D_FORTIFY_SOURCE=2 $(CFLAGS)
ASAN_CFLAGS := $(BASE_FLAGS) -O1 $(SANITIZE)
COVERAGE_FLAGS := -fprofile-instr-generate -fcoverage-mapping
COVERAGE_CFLAGS := $(BASE_FLAGS) -O1 $(COVERAGE_FLAGS)
FUZZ_CFLAGS := $(BASE_FLAGS) -O1 $(SANITIZE) -fsanitize=fuzzer-no-link

$(eval $(call variant,$(B)/agent,$$(MUSL_CC) $$(AGENT_CFLAGS) \
	-I$(B)/include,$(SODIUM)))
$(eval $(call variant,$(B)/host,$$(CC) $$(HOST_CFLAGS) $$(EMBED)))
$(eval $(call variant,$(B)/asan,$$(CC) $$(ASAN_CFLAGS) $$(EMBED)))
$(eval $(call variant,$(B)/fuzz,$$(CLANG) $$(FUZZ_CFLAGS)))
$(eval $(call variant,$(B)/coverage,$$(CLANG) $$(COVERAGE_CFLAGS)))
$(eval $(call variant,$(B)/lint,$$(CC) $$(HOST_CFLAGS) $$(EMBED) -Werror))

# musl sees nothing of the system's headers but sodium's and yaml's.
$(SODIUM): Makefile | $(NEED)
	@mkdir -p $(B)/include
	@ln -sfn /usr/include/sodium.h $(B)/include/sodium.h
	@ln -sfn /usr/include/sodium $(B)/include/sodium
	@ln -sfn /usr/include/yaml.h $(B)/include/yaml.h
	@touch $@

# ---- the agent ---------------------------------------------------------

AGENT_BIN := $(B)/agent/sandmux-agent
AGENT_OBJS := $(call objects,$(B)/agent,$(AGENT) agent/musl/shim.c)
LIBSODIUM = $(shell $(CC) -print-file-name=libsodium.a)
STATIC := -static -no-pie -s -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,norelro \
	-Wl,-z,noseparate-code

# A program without interpreter, within its budget, or none at all.
define agent_link
	$(Q)$(1) $(STATIC) -o $@.tmp $(2)
	@if readelf -lW $@.tmp | grep -q INTERP; then \
		echo "$@: it has an interpreter: not static" >&2; exit 1; fi
	@size=$$(stat -c %s $@.tmp); \
	if [ "$$size" -gt $(AGENT_SIZE_MAX) ]; then \
		echo "$@: $$size bytes, over $(AGENT_SIZE_MAX)" >&2; \
		exit 1; fi; echo "$@: $$size bytes"
	@chmod 0755 $@.tmp
	@mv -f $@.tmp $@
endef

.PHONY: agent
agent: $(AGENT_BIN)
$(AGENT_BIN): $(AGENT_OBJS)
	$(call agent_link,$(MUSL_CC),$(AGENT_OBJS) $(LIBSODIUM))

# ---- the same for arm64, by a cross compiler ---------------------------

# musl's headers, start files and library of arm64 come from Debian's
# musl-dev:arm64; the specs file is what its musl-gcc would use.
ARM64_BIN := $(B)/agent-arm64/sandmux-agent
ARM64_OBJS := $(call objects,$(B)/agent-arm64,$(AGENT) agent/musl/shim.c)
ARM64_MUSL := /usr/lib/aarch64-linux-musl
ARM64_FLAGS := -nostdinc -isystem /usr/include/aarch64-linux-musl \
	-isystem $(B)/include -mno-outline-atomics
$(eval $(call variant,$(B)/agent-arm64,$$(ARM64_CC) $$(AGENT_CFLAGS) \
	$$(ARM64_FLAGS) -isystem $$(shell $(ARM64_CC) \
	-print-file-name=include),$(SODIUM)))

.PHONY: agent-arm64
agent-arm64: $(ARM64_BIN)
$(ARM64_BIN): $(ARM64_OBJS)
	$(call agent_link,$(ARM64_CC),-nostdlib -nostartfiles \
		$(ARM64_MUSL)/crt1.o $(ARM64_MUSL)/crti.o $(ARM64_OBJS) \
		/usr/lib/$(ARM64_TRIPLE)/libsodium.a -L$(ARM64_MUSL) \
		-lc -lgcc -lc $(ARM64_MUSL)/crtn.o)

# ---- the host program --------------------------------------------------

# host/embed.S takes the agents in by these names.
HAVE_ARM64 := $(if $(filter agent-arm64 check-arm64,$(MAKECMDGOALS))$(if \
	$(filter no,$(WHEEL_ARM64)),,$(filter wheel,$(MAKECMDGOALS))),$(ARM64_BIN),$(wildcard \
	$(ARM64_BIN)))
EMBED = -DEMBED_AGENT='"$(AGENT_BIN)"' \
	$(if $(HAVE_ARM64),-DEMBED_AGENT_ARM64='"$(ARM64_BIN)"')
HOST_BIN := $(B)/host/sandmux
HOST_LIBS := -lsodium -lyaml
EMBED_SRC := $(wildcard host/*.S)
HOST_OBJS := $(call objects,$(B)/host,$(HOST) $(EMBED_SRC))

.PHONY: host
host: $(HOST_BIN)
$(HOST_BIN): $(HOST_OBJS)
	$(call say,LD $@)
	$(Q)$(CC) $(LDFLAGS) -pie -o $@.tmp $(HOST_OBJS) $(HOST_LIBS)
	@mv -f $@.tmp $@

$(patsubst %,%/host/embed.S.o,$(B)/host $(B)/lint $(B)/static): \
	$(AGENT_BIN) $(HAVE_ARM64)

# ---- the host program without any library of the system's --------------

# For the wheel, where one file serves glibc and musl systems, and for tests
# that run it inside an image.
STATIC_BIN := $(B)/static/sandmux
STATIC_OBJS := $(call objects,$(B)/static,$(HOST) $(EMBED_SRC) host/musl/shim.c)
STATIC_LIBS = $(foreach lib,$(HOST_LIBS:-l%=%),$(shell $(CC) \
	-print-file-name=lib$(lib).a))
$(eval $(call variant,$(B)/static,$$(MUSL_CC) $$(HOST_CFLAGS) $$(EMBED) \
	-I$(B)/include,$(SODIUM)))

.PHONY: static
static: $(STATIC_BIN)
$(STATIC_BIN): $(STATIC_OBJS)
	$(call say,LD $@)
	$(Q)$(MUSL_CC) -static -no-pie -s -o $@.tmp $(STATIC_OBJS) $(STATIC_LIBS)
	@if readelf -lW $@.tmp | grep -q INTERP; then \
		echo "$@: it has an interpreter: not static" >&2; exit 1; fi
	@mv -f $@.tmp $@

# ---- the wheel ---------------------------------------------------------

# WHEEL_ARM64=no leaves out the agent for arm64, and its cross compiler.
WHEEL := $(B)/wheel
WHEEL_ARCH := $(shell uname -m)
VENV_PYTHON := $(B)/inspect/venv/bin/python
.PHONY: wheel inspect-venv
inspect-venv: | $(NEED)
	@B=$(B) PYTHON=$(PYTHON) sh tests/inspect/venv.sh
# A make of its own finds that agent there: as one of .SECONDARY's it would not
# make an older program be linked again.
wheel: $(HAVE_ARM64) inspect-venv | $(NEED)
	@$(MAKE) --no-print-directory static
	@rm -rf $(WHEEL)
	@mkdir -p $(WHEEL)/source
	@cp -R host/inspect/. LICENSE $(WHEEL)/source
	@cp $(STATIC_BIN) $(WHEEL)/source/sandmux
	@printf '%s\n' '[tool.hatch.build.targets.wheel.shared-scripts]' \
		'"sandmux" = "sandmux"' >>$(WHEEL)/source/pyproject.toml
	$(call say,WHEEL $(WHEEL))
	$(Q)$(VENV_PYTHON) -m pip wheel -q --no-deps --no-build-isolation \
		--disable-pip-version-check -w $(WHEEL) $(WHEEL)/source
	$(Q)$(VENV_PYTHON) -m wheel tags --remove --platform-tag \
		manylinux2014_$(WHEEL_ARCH).musllinux_1_1_$(WHEEL_ARCH) \
		$(WHEEL)/*.whl >/dev/null
	@rm -rf $(WHEEL)/source
	@ls $(WHEEL)/*.whl

# ---- sanitizer builds (glibc): build/asan has the layout of build ------

ASAN_OBJS_common := $(call objects,$(B)/asan,$(COMMON))
ASAN_OBJS_agent := $(call objects,$(B)/asan,$(filter agent/%,$(AGENT)))
ASAN_OBJS_host := $(call objects,$(B)/asan,$(filter host/%,$(HOST)))
ASAN_HOST := $(B)/asan/host/sandmux
ASAN_AGENT := $(B)/asan/agent/sandmux-agent

.PHONY: sanitize
sanitize: $(B)/asan/sandmux $(B)/asan/sandmux-agent
$(B)/asan/sandmux: $(ASAN_HOST)
	@ln -sf host/sandmux $@
$(B)/asan/sandmux-agent: $(ASAN_AGENT)
	@ln -sf agent/sandmux-agent $@
$(ASAN_AGENT): $(ASAN_OBJS_agent) $(ASAN_OBJS_common)
	$(call say,LD $@)
	$(Q)$(CC) $(SANITIZE) -static-libasan -static-libubsan -s -o $@ $^ \
		$(LIBSODIUM)
# This one carries that agent.
$(B)/asan/host/embed.S.o: private EMBED = -DEMBED_AGENT='"$(ASAN_AGENT)"'
$(B)/asan/host/embed.S.o: $(ASAN_AGENT)
$(ASAN_HOST): $(ASAN_OBJS_host) $(ASAN_OBJS_common) \
	$(patsubst %,$(B)/asan/%.o,$(EMBED_SRC))
	$(call say,LD $@)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(HOST_LIBS)

# ---- unit tests (ASan + UBSan) and fuzz replay -------------------------

# tests/unit/test_X.c may use common/, and host/ or agent/ where X is one of
# their files or begins with host_ or agent_.
UNIT := $(sort $(wildcard tests/unit/test_*.c))
FUZZ := $(sort $(wildcard tests/fuzz/fuzz_*.c))
UNIT_BINS := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(UNIT))
REPLAY_BINS := $(patsubst tests/fuzz/%.c,$(B)/tests/replay/%,$(FUZZ))
FUZZ_BINS := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(FUZZ))

$(eval $(call archive,$(B)/asan/libcommon.a,$(ASAN_OBJS_common)))
$(eval $(call archive,$(B)/asan/libagent.a,$(filter-out \
	%/main.o,$(ASAN_OBJS_agent))))
# The agents inside are the plain ones here.
EMBED_OBJS := $(patsubst %,$(B)/host/%.o,$(EMBED_SRC))
$(eval $(call archive,$(B)/asan/libhost.a,$(filter-out \
	%/main.o,$(ASAN_OBJS_host)) $(EMBED_OBJS)))

# $(call side,NAME): host, agent or nothing
side = $(if $(wildcard common/$(1).c),,$(if \
	$(filter host_%,$(1))$(wildcard host/$(1).c),host,$(if \
	$(filter agent_%,$(1))$(wildcard agent/$(1).c),agent)))
side_of = $(call side,$(patsubst test_%,%,$(patsubst fuzz_%,%,$(basename \
	$(notdir $(1))))))
# $(call test_program,BINARY,SOURCE,VARIANT,LINKER,EXTRA OBJECTS,LIBRARIES)
define test_program
$(1): $(call objects,$(B)/$(3),$(2) $(5)) $(B)/$(3)/libcommon.a \
	$(patsubst %,$(B)/$(3)/lib%.a,$(call side_of,$(2)))
	@mkdir -p $$(@D)
	$$(call say,LD $$@)
	$$(Q)$(4) -o $$@ $(call objects,$(B)/$(3),$(2) $(5)) $(patsubst \
		%,$(B)/$(3)/lib%.a,$(call side_of,$(2))) \
		$(B)/$(3)/libcommon.a $(6) -lsodium -lyaml
$(call objects,$(B)/$(3),$(2)): private INC := $(patsubst \
	%,-I%,$(call side_of,$(2)))
endef

# Functions that a test puts itself in place of, to make them fail.
WRAP_test_agent_faults := open fstat read setgroups setresgid setresuid \
	syscall prctl access chdir unlockpt ptsname_r tcgetattr tcsetattr \
	ioctl fcntl pipe2 dup2 clone nice setrlimit execve malloc calloc \
	socketpair fork session_fail session_result
WRAP_test_host_swap := openat fstatat faccessat mkdirat symlinkat linkat \
	renameat unlinkat utimensat fchownat readlinkat fdopendir fchmod \
	futimens ftruncate
WRAP_test_init := kill
WRAP_test_tree := open opendir
wraps = $(patsubst %,-Wl$(comma)--wrap=%,$(WRAP_$(basename $(notdir $(1)))))
comma := ,
$(foreach t,$(UNIT),$(eval $(call test_program,$(B)/tests/unit/$(basename \
	$(notdir $(t))),$(t),asan,$$(CC) $$(SANITIZE),,-lcmocka $(call \
	wraps,$(t)))))
$(foreach t,$(FUZZ),$(eval $(call test_program,$(B)/tests/replay/$(basename \
	$(notdir $(t))),$(t),asan,$$(CC) $$(SANITIZE),tests/fuzz/replay.c,)))

# ---- libFuzzer (clang) -------------------------------------------------

# $(call archives,VARIANT): one for each side, without main
define archives
$(call archive,$(B)/$(1)/libcommon.a,$(call objects,$(B)/$(1),$(COMMON)))
$(call archive,$(B)/$(1)/libagent.a,$(filter-out %/main.o,$(call \
	objects,$(B)/$(1),$(filter agent/%,$(AGENT)))))
$(call archive,$(B)/$(1)/libhost.a,$(filter-out %/main.o,$(call \
	objects,$(B)/$(1),$(filter host/%,$(HOST)))) $(EMBED_OBJS))
endef
$(eval $(call archives,fuzz))
$(eval $(call archives,coverage))
$(foreach t,$(FUZZ),$(eval $(call test_program,$(B)/tests/fuzz/$(basename \
	$(notdir $(t))),$(t),fuzz,$$(CLANG) $$(SANITIZE) -fsanitize=fuzzer,,)))
$(foreach t,$(FUZZ),$(eval $(call test_program,$(B)/tests/coverage/$(basename \
	$(notdir $(t))),$(t),coverage,$$(CLANG) $$(COVERAGE_FLAGS),\
	tests/fuzz/replay.c,)))

.PHONY: fuzz coverage
fuzz: $(FUZZ_BINS)
	FUZZ_SECONDS=$(FUZZ_SECONDS) B=$(B) sh tests/fuzz/run.sh
coverage: $(patsubst tests/fuzz/%.c,$(B)/tests/coverage/%,$(FUZZ))
	CLANG=$(CLANG) B=$(B) sh tests/fuzz/coverage.sh

# ---- the checks --------------------------------------------------------

# Programs of the tests: tests/tools/X.c gives build/tests/tools/X, static,
# so that it runs in any container; the stand-in openshell has rules of its
# own.
TOOLS := $(sort $(wildcard tests/tools/*.c))
TOOL_BINS := $(patsubst tests/tools/%.c,$(B)/tests/tools/%,$(TOOLS))
$(B)/tests/tools/%: tests/tools/%.c Makefile | $(NEED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(MUSL_CC) $(BASE_FLAGS) $(OPT) -static -s -o $@ $<

BUILD := $(B)
-include tests/tools/openshell/standin.mk
STANDIN := $(STANDIN_PROGRAMS)
# Asked for when it is needed: the compiler may not be there before.
STANDIN_MULTIARCH = $(shell $(CC) -print-multiarch 2>/dev/null)
STANDIN_MUSL = -static -idirafter /usr/include \
	-idirafter /usr/include/$(STANDIN_MULTIARCH)
$(STANDIN_CLI:%=$(B)/tests/openshell/host/%.o): | $(NEED)
$(STANDIN_GATEWAY:%=$(B)/tests/openshell/host/%.o): | $(NEED)
$(STANDIN_SUPERVISOR:%=$(B)/tests/openshell/inside/%.o) \
	$(B)/tests/openshell/inside/probe.o: | $(NEED)

TEST_PROGRAMS = all static sanitize $(UNIT_BINS) $(REPLAY_BINS) $(TOOL_BINS) \
	$(STANDIN)

.PHONY: check check-long check-sanitize check-arm64 test-programs
test-programs: $(TEST_PROGRAMS)
check: $(TEST_PROGRAMS) inspect-venv
	@B=$(B) PYTHON=$(PYTHON) sh tests/run.sh
check-long: $(TEST_PROGRAMS) inspect-venv
	@B=$(B) PYTHON=$(PYTHON) SANDMUX_LONG=1 sh tests/run.sh
# The whole programs under ASan and UBSan, on local and in a Debian root.
check-sanitize: $(TEST_PROGRAMS)
	@B=$(B)/asan PYTHON=$(PYTHON) SANDMUX_SANITIZE=1 \
		SUITES=tests/e2e sh tests/run.sh

# The local end-to-end suite with the arm64 agent under qemu-user: by a host
# program that carries tests/qemu-agent.sh in place of an agent.
QEMU := $(B)/qemu
$(QEMU)/agent/sandmux-agent: tests/qemu-agent.sh $(ARM64_BIN)
	@mkdir -p $(@D)
	@sed 's|@AGENT@|$(abspath $(ARM64_BIN))|' $< >$@.tmp
	@chmod 0755 $@.tmp
	@mv $@.tmp $@
$(QEMU)/host/embed.S.o: host/embed.S $(QEMU)/agent/sandmux-agent
	@mkdir -p $(@D)
	$(CC) -DEMBED_AGENT='"$(QEMU)/agent/sandmux-agent"' -c -o $@ $<
$(QEMU)/host/sandmux: $(filter-out %.S.o,$(HOST_OBJS)) \
	$(QEMU)/host/embed.S.o
	$(CC) -pie -o $@ $^ $(HOST_LIBS)
check-arm64: $(TEST_PROGRAMS) $(QEMU)/host/sandmux
	@ln -sfn ../tests $(QEMU)/tests
	@B=$(QEMU) PYTHON=$(PYTHON) SANDMUX_QEMU=1 SUITES=tests/e2e \
		sh tests/run.sh

# ---- lint: warnings are errors, then clang-tidy ------------------------

LINT := $(sort $(AGENT) $(HOST))
TIDY := $(patsubst %,$(B)/lint/%.tidy,$(LINT))
.PHONY: lint
lint: $(call objects,$(B)/lint,$(LINT)) $(TIDY)
$(B)/lint/%.c.tidy: %.c .clang-tidy $(HEADERS) | $(NEED)
	@mkdir -p $(@D)
	$(call say,TIDY $<)
	$(Q)clang-tidy --quiet $< -- $(BASE_FLAGS) >$@.tmp 2>&1 || \
		{ grep -v 'warnings generated' $@.tmp; exit 1; }
	@mv $@.tmp $@

# ---- images, bench, demo -----------------------------------------------

.PHONY: images bench demo
images: $(AGENT_BIN) $(TOOL_BINS)
	B=$(B) sh tests/images.sh

BENCH := rawlink nullpipe spawnloop
BENCH_BINS := $(patsubst %,$(B)/bench/%,$(BENCH))
$(B)/bench/%: tests/bench/%.c $(COMMON) $(SODIUM) Makefile | $(NEED)
	@mkdir -p $(@D)
	$(call say,CC $@)
	$(Q)$(MUSL_CC) $(BASE_FLAGS) -O2 -I$(B)/include -static -s -o $@ $< \
		agent/musl/shim.c $(LIBSODIUM)
# A client of the controller, from the host program's own objects.
$(B)/host/tests/bench/client_loop.o: private INC := -Ihost
$(B)/bench/client_loop: $(B)/host/tests/bench/client_loop.o \
	$(filter-out %/main.o,$(HOST_OBJS))
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) -pie -o $@ $^ $(HOST_LIBS)
bench: all $(BENCH_BINS) $(B)/bench/client_loop $(B)/tests/tools/pause \
	$(STANDIN) inspect-venv
	@B=$(B) BASE=$(BASE) $(PYTHON) tests/bench/bench.py
demo: all $(B)/tests/tools/pause
	@B=$(B) sh tests/demo.sh

# ---- install, clean ----------------------------------------------------

MANUALS := $(wildcard host/*.1 agent/*.1)
.PHONY: install clean
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/sandmux
	install -m 0755 $(HOST_BIN) $(DESTDIR)$(PREFIX)/bin/.sandmux.tmp
	mv -f $(DESTDIR)$(PREFIX)/bin/.sandmux.tmp \
		$(DESTDIR)$(PREFIX)/bin/sandmux
	install -m 0755 $(AGENT_BIN) \
		$(DESTDIR)$(PREFIX)/lib/sandmux/.sandmux-agent.tmp
	mv -f $(DESTDIR)$(PREFIX)/lib/sandmux/.sandmux-agent.tmp \
		$(DESTDIR)$(PREFIX)/lib/sandmux/sandmux-agent
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 0644 $(MANUALS) $(DESTDIR)$(PREFIX)/share/man/man1
clean:
	rm -rf $(B)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
