/* SPDX-License-Identifier: MIT */
/*
 * vectors.h - the frozen vector files: lines of a word and hex, in blocks.
 *
 * Include after cmocka.h.  Everything here fails the test instead of
 * returning an error.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line: its first word and the rest, as text and, if it is hex, bytes. */
struct vector_line {
	char *word, *text;
	uint8_t *bytes;
	size_t len;
};

/* A block: lines up to an empty one. */
struct vector_block {
	struct vector_line lines[128];
	size_t count;
};

struct vector_file {
	struct vector_block blocks[128];
	size_t count;
};

static int
vector_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = strchr(digits, c);

	return c == '\0' || at == NULL ? -1 : (int)(at - digits);
}

/* Bytes of hex text; NULL if it is none. */
static uint8_t *
vector_hex(const char *text, size_t *len)
{
	size_t i, n = strlen(text) / 2;
	uint8_t *bytes = malloc(n + 1);

	assert_non_null(bytes);
	*len = n;
	for (i = 0; i < 2 * n; i++) {
		int digit = vector_digit(text[i]);

		if (digit == -1) {
			break;
		}
		bytes[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 :
		    bytes[i / 2] | digit);
	}
	if (i < 2 * n || text[i] != '\0') {
		free(bytes);
		*len = 0;
		return NULL;
	}
	return bytes;
}

static struct vector_file *
vector_read(const char *path)
{
	struct vector_file *file = calloc(1, sizeof(*file));
	FILE *in = fopen(path, "r");
	struct vector_block *block = NULL;
	char *line = NULL, *space;
	size_t size = 0;
	ssize_t n;

	assert_non_null(file);
	if (in == NULL) {
		fail_msg("%s: run this in the repository's root", path);
	}
	while ((n = getline(&line, &size, in)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#') {
			block = NULL;
			continue;
		}
		if (block == NULL) {
			assert_true(file->count < 128);
			block = &file->blocks[file->count++];
		}
		assert_true(block->count < 128);
		space = strchr(line, ' ');
		assert_non_null(space);
		*space = '\0';
		block->lines[block->count].word = strdup(line);
		block->lines[block->count].text = strdup(space + 1);
		block->lines[block->count].bytes = vector_hex(space + 1,
		    &block->lines[block->count].len);
		block->count++;
	}
	free(line);
	fclose(in);
	assert_true(file->count > 0);
	return file;
}

static void
vector_free(struct vector_file *file)
{
	size_t i, k;

	for (i = 0; i < file->count; i++) {
		for (k = 0; k < file->blocks[i].count; k++) {
			free(file->blocks[i].lines[k].word);
			free(file->blocks[i].lines[k].text);
			free(file->blocks[i].lines[k].bytes);
		}
	}
	free(file);
}

#endif
