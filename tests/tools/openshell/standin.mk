# SPDX-License-Identifier: MIT
# The stand-in openshell CLI: included by the top Makefile, or alone by
# `make -f tests/tools/openshell/standin.mk` from the top directory.

CC ?= cc
MUSL_CC ?= musl-gcc
BUILD ?= build

STANDIN_SRC := tests/tools/openshell
STANDIN_OUT := $(BUILD)/tests/openshell
STANDIN_CFLAGS := -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -Wshadow \
	-Wmissing-prototypes -Wconversion -MMD -MP -pthread
STANDIN_MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
# musl has no kernel headers of its own; after its own ones these are safe.
STANDIN_MUSL := -static -idirafter /usr/include \
	-idirafter /usr/include/$(STANDIN_MULTIARCH)

STANDIN_CLI := cli cli_exec cli_gateway cli_help cli_sandbox cli_tty \
	docker request state wire
STANDIN_GATEWAY := gateway docker keepalive link queue request state wire
STANDIN_SUPERVISOR := supervisor cage policy reaper session spawn wire

STANDIN_PROGRAMS := $(STANDIN_OUT)/openshell $(STANDIN_OUT)/gateway \
	$(STANDIN_OUT)/supervisor $(STANDIN_OUT)/probe

.PHONY: standin
standin: $(STANDIN_PROGRAMS)

$(STANDIN_OUT)/host/%.o: $(STANDIN_SRC)/%.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) -c -o $@ $<

$(STANDIN_OUT)/inside/%.o: $(STANDIN_SRC)/%.c
	@mkdir -p $(@D)
	$(MUSL_CC) $(STANDIN_CFLAGS) $(STANDIN_MUSL) -c -o $@ $<

$(STANDIN_OUT)/openshell: $(STANDIN_CLI:%=$(STANDIN_OUT)/host/%.o)
	$(CC) -pthread -o $@.new $^
	mv -f $@.new $@

$(STANDIN_OUT)/gateway: $(STANDIN_GATEWAY:%=$(STANDIN_OUT)/host/%.o)
	$(CC) -pthread -o $@.new $^
	mv -f $@.new $@

$(STANDIN_OUT)/supervisor: $(STANDIN_SUPERVISOR:%=$(STANDIN_OUT)/inside/%.o)
	$(MUSL_CC) -static -pthread -o $@.new $^
	mv -f $@.new $@

$(STANDIN_OUT)/probe: $(STANDIN_OUT)/inside/probe.o
	$(MUSL_CC) -static -o $@.new $^
	mv -f $@.new $@

-include $(wildcard $(STANDIN_OUT)/host/*.d $(STANDIN_OUT)/inside/*.d)
