/* SPDX-License-Identifier: MIT */
/*
 * config.h - openshell.yaml, sandmux.yaml and records as sandboxes.
 *
 * One table of keys (config.c) says what each key may hold and where; a
 * record (record.c) is JSON, hence YAML, with a few keys more.  Every error is
 * one text "FILE:LINE:COLUMN: what", with the nearest key for an unknown one.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "json.h"
#include "sandbox.h"

#define CONFIG_SANDBOXES_MAX 64u	/* of one file */
#define CONFIG_IMAGE "python:3.12-slim"	/* as the existing provider has it */
#define CONFIG_TRANSPORT "openshell"
#define CONFIG_HIDE "OPENSHELL_SANDBOX"

enum config_kind {
	CONFIG_OPENSHELL,		/* seven keys */
	CONFIG_SANDMUX,
	CONFIG_RECORD			/* one sandbox; nothing is looked up */
};

struct config {
	struct sandbox *sandboxes[CONFIG_SANDBOXES_MAX];	/* owned */
	unsigned count;
};

/*
 * Read a file ("-": stdin); NULL: the first of sandmux.yaml, sandmux.yml,
 * openshell.yaml, openshell.yml in base, and without any of them all
 * defaults.  base is what relative paths are relative to; NULL: the file's
 * directory, or the current one.  0, or -1 with *error; config_free() is fine
 * on both.
 */
int config_load(struct config *config, const char *file, const char *base,
    struct error *error);

/* The same for data[len] that is called name; base is absolute. */
int config_parse(struct config *config, enum config_kind kind,
    const char *name, const char *base, const char *data, size_t len,
    struct error *error);

void config_free(struct config *config);

/* A record's text: one JSON object, which config_parse() reads back. */
void config_write(struct json *json, const struct sandbox *sandbox);

#endif
