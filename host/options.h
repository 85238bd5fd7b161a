/* SPDX-License-Identifier: MIT */
/*
 * options.h - reads a subcommand's options the way `docker exec` does.
 *
 * Options end at the first word that is none, or behind "--".  Short ones
 * combine ("-iw DIR"), values may be attached ("-wDIR", "-w=DIR",
 * "--workdir=DIR").  An option of a later version is refused by name, an
 * unknown one with the nearest that is known.  The kinds of values that
 * several commands take are read here too.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>
#include <sys/types.h>

#include "error.h"

enum options_kind {
	OPTIONS_FLAG,			/* takes no value */
	OPTIONS_VALUE,			/* takes one */
	OPTIONS_REFUSED,		/* as a flag, =VALUE or not; the
					 * command says why not */
	OPTIONS_LATER			/* not in this version */
};

/* id: what options_next() returns; below 256 it is the short option too. */
struct options_entry {
	int id;
	const char *name;		/* without "--"; NULL: short only */
	enum options_kind kind;
};

#define OPTIONS_LAST { 0, NULL, OPTIONS_FLAG }	/* ends a table */

/* Start with argc, argv and table filled in; all borrowed. */
struct options {
	int argc;
	char **argv;			/* argv[0] is the subcommand */
	const struct options_entry *table;
	int at;				/* next word, 0 at the start */
	const char *more;		/* rest of a word of short options */
	const char *value;		/* of an OPTIONS_VALUE */
};

/*
 * The next option's id, 0 at the end (argv[at] is then the first operand),
 * -1 with *error (WIRE_STEP_USAGE).
 */
int options_next(struct options *options, struct error *error);

/* Skip one "--" among the operands. */
void options_skip_dashes(struct options *options);

/*
 * "1.5s", "2m", "300ms", "1h" or plain seconds, into milliseconds (rounded
 * up); what names the option.  0, or -1 with *error.
 */
int options_duration(const char *text, const char *what, uint64_t *ms,
    struct error *error);

/* A decimal number up to max; likewise. */
int options_number(const char *text, const char *what, uint64_t max,
    uint64_t *value, struct error *error);

/* Bytes: "65536", "64K", "10M", "2G" (of 1024), at most max; likewise. */
int options_size(const char *text, const char *what, uint64_t max,
    uint64_t *bytes, struct error *error);

/* A file's mode, octal, 0 to 07777; likewise. */
int options_mode(const char *text, const char *what, mode_t *mode,
    struct error *error);

/* "TERM", "SIGTERM" or a number, 1 to 64, into Linux's number; likewise. */
int options_signal(const char *text, const char *what, unsigned *number,
    struct error *error);

/* How many edits turn a into b, at most 32 letters each; else 99. */
unsigned options_distance(const char *a, const char *b);

#endif
