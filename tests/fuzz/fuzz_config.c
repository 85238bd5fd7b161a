/* SPDX-License-Identifier: MIT */
/*
 * fuzz_config.c - the configuration's parser.
 *
 * The first byte chooses the kind of file.  Whatever comes is refused with a
 * position, or what it became is written as a record and read back the same.
 */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_error(const struct error *error)
{
	size_t len = strnlen(error->text, sizeof(error->text)), i;
	unsigned line, column;

	CHECK(error->step == WIRE_STEP_USAGE);
	CHECK(len > 0 && len < sizeof(error->text));
	CHECK(sscanf(error->text, "fuzz:%u:%u: ", &line, &column) == 2);
	CHECK(line > 0 && column > 0);
	for (i = 0; i < len; i++) {
		CHECK((uint8_t)error->text[i] >= ' ' ||
		    error->text[i] == '\t');
	}
}

static void
check_sandbox(struct sandbox *s, enum config_kind kind)
{
	struct json once = { 0 }, twice = { 0 };
	struct config again;
	struct error error;

	CHECK(s->transport != NULL && s->key != NULL);
	CHECK(kind == CONFIG_RECORD || strlen(s->key) <= SANDBOX_KEY_MAX);
	config_write(&once, s);
	if (json_text(&once) != NULL) {
		CHECK(config_parse(&again, CONFIG_RECORD, "fuzz", "/",
		    json_text(&once), once.len, &error) == 0);
		CHECK(again.count == 1);
		config_write(&twice, again.sandboxes[0]);
		CHECK(strcmp(json_text(&once), json_text(&twice)) == 0);
		config_free(&again);
	}
	json_free(&once);
	json_free(&twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config config;
	struct error error = { .text = "" };
	enum config_kind kind;
	unsigned i;

	if (size == 0) {
		return 0;
	}
	kind = (enum config_kind)(data[0] % (CONFIG_RECORD + 1));
	if (config_parse(&config, kind, "fuzz", "/nonexistent",
	    (const char *)data + 1, size - 1, &error) < 0) {
		check_error(&error);
	} else {
		CHECK(config.count > 0);
		for (i = 0; i < config.count; i++) {
			check_sandbox(config.sandboxes[i], kind);
		}
	}
	config_free(&config);
	return 0;
}
