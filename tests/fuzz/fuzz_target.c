/* SPDX-License-Identifier: MIT */
/*
 * fuzz_target.c - the host's parsers of text: targets, operands, options,
 * numbers, environment files, and the quoting of hostile bytes.
 *
 * The first byte chooses the parser, the rest is its text.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "envlist.h"
#include "fuzz_input.h"
#include "options.h"
#include "quote.h"
#include "target.h"

#define WORDS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct options_entry table[] = {
	{ 'i', "interactive", OPTIONS_FLAG },
	{ 'w', "workdir", OPTIONS_VALUE },
	{ 'e', "env", OPTIONS_VALUE },
	{ 256, "timeout", OPTIONS_VALUE },
	{ 'q', NULL, OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_LATER },
	OPTIONS_LAST
};

static void
check_error(const struct error *error, enum wire_step step)
{
	size_t i, len = strnlen(error->text, sizeof(error->text));

	CHECK(error->step == step);
	CHECK(len > 0 && len < sizeof(error->text));
	/* What a person will see moves no cursor. */
	for (i = 0; i < len; i++) {
		CHECK((uint8_t)error->text[i] >= ' ');
		CHECK(error->text[i] != 0x7f);
	}
}

static void
check_name(const struct target *target)
{
	char text[TARGET_TEXT_MAX];
	struct target again;
	struct error error;

	CHECK(target->name[0] != '-' && target->name[0] != '.');
	CHECK(strpbrk(target->name, " ;:$`'\"\\\n") == NULL);
	target_format(target, text);
	CHECK(target_parse(text, &again, &error) == 0);
	CHECK(strcmp(again.scheme, target->scheme) == 0);
	CHECK(strcmp(again.name, target->name) == 0);
}

static void
one_target(const char *text)
{
	struct target target;
	struct error error;

	if (target_parse(text, &target, &error) == -1) {
		check_error(&error, WIRE_STEP_TARGET);
	} else {
		check_name(&target);
	}
}

static void
one_operand(const char *text)
{
	struct target_operand operand;
	struct error error;

	if (target_operand(text, &operand, &error) == -1) {
		CHECK(error.step == WIRE_STEP_TARGET ||
		    error.step == WIRE_STEP_USAGE);
		check_error(&error, error.step);
		return;
	}
	CHECK(operand.path >= text && operand.path <= text + strlen(text));
	CHECK(operand.path[0] != '\0');
	if (!operand.local) {
		check_name(&operand.target);
	}
}

/* The text's lines are the words. */
static void
all_options(char *text)
{
	char *argv[WORDS_MAX + 2] = { (char *)"exec" };
	struct options o = { .argc = 1, .argv = argv, .table = table };
	struct error error;
	int id, count = 0;

	for (; text != NULL && o.argc <= WORDS_MAX; o.argc++) {
		argv[o.argc] = strsep(&text, "\n");
	}
	while ((id = options_next(&o, &error)) > 0) {
		CHECK(id < 257 && ++count < 100000);
		CHECK(o.at <= o.argc);
		CHECK(id == 'i' || id == 'q' || o.value != NULL);
	}
	if (id == -1) {
		check_error(&error, WIRE_STEP_USAGE);
		return;
	}
	options_skip_dashes(&o);
	CHECK(o.at >= 1 && o.at <= o.argc);
}

static void
numbers(const char *text)
{
	struct error error;
	uint64_t value;

	if (options_duration(text, "--timeout", &value, &error) == -1) {
		check_error(&error, WIRE_STEP_USAGE);
	}
	if (options_number(text, "--lines", 1000, &value, &error) == -1) {
		check_error(&error, WIRE_STEP_USAGE);
	} else {
		CHECK(value <= 1000);
	}
	CHECK(options_distance(text, "interactive") <= 99);
}

static void
environment(const char *data, size_t len)
{
	struct envlist env = { 0 };
	struct wire_list list;
	struct wire_bytes item;
	struct error error;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(fd != -1 && write(fd, data, len) == (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (envlist_file(&env, path, &error) == -1) {
		check_error(&error, WIRE_STEP_USAGE);
	}
	close(fd);
	if (envlist_add(&env, data, &error) == -1) {
		check_error(&error, WIRE_STEP_USAGE);
	}
	if (envlist_remove(&env, data, &error) == -1) {
		check_error(&error, WIRE_STEP_USAGE);
	}
	list = items_list(&env.set);
	while (wire_next(&list, &item)) {
		const uint8_t *equals = memchr(item.at, '=', item.len);

		CHECK(equals != NULL && equals != item.at);
		CHECK(memchr(item.at, '\0', item.len) == NULL);
	}
	envlist_free(&env);
}

/* Valid UTF-8 without control characters, whatever came. */
static void
quoted(const uint8_t *data, size_t len)
{
	char out[96];
	size_t cap = len % sizeof(out) + 1, n, at = 0, step;

	n = quote_bytes(out, cap, data, len);
	CHECK(n < cap && out[n] == '\0' && strlen(out) == n);
	while (at < n) {
		step = quote_utf8((const uint8_t *)out + at, n - at);
		CHECK(step > 0);
		at += step;
	}
	(void)quote_utf8_any(data, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0) {
		return 0;
	}
	text = malloc(size);
	CHECK(text != NULL);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 6) {
	case 0:
		one_target(text);
		break;
	case 1:
		one_operand(text);
		break;
	case 2:
		all_options(text);
		break;
	case 3:
		numbers(text);
		break;
	case 4:
		environment(text, size - 1);
		break;
	default:
		quoted(data + 1, size - 1);
		break;
	}
	free(text);
	return 0;
}
