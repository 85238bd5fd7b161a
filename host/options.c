/* SPDX-License-Identifier: MIT */
/* options.c - options as `docker exec` reads them, and kinds of values. */
#include "options.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "quote.h"
#include "words.h"

#define OPTIONS_FAR 99u
#define OPTIONS_WORD 32u
#define OPTIONS_SIGNALS 64u		/* Linux has no higher number */

unsigned
options_distance(const char *a, const char *b)
{
	unsigned row[OPTIONS_WORD + 1], last, here, i, j, best;
	size_t n = strlen(a), m = strlen(b);

	if (n > OPTIONS_WORD || m > OPTIONS_WORD) {
		return OPTIONS_FAR;
	}
	for (j = 0; j <= m; j++) {
		row[j] = j;
	}
	for (i = 1; i <= n; i++) {
		last = row[0];
		row[0] = i;
		for (j = 1; j <= m; j++) {
			here = row[j];
			best = last + (a[i - 1] != b[j - 1]);
			best = here + 1 < best ? here + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			row[j] = best;
			last = here;
		}
	}
	return row[m];
}

/* One that can be given. */
static bool
usable(const struct options_entry *entry)
{
	return entry->kind == OPTIONS_FLAG || entry->kind == OPTIONS_VALUE;
}

static bool
is_last(const struct options_entry *entry)
{
	return entry->id == 0;
}

/* The known long option most like name; NULL if none is near. */
static const char *
nearest(const struct options_entry *table, const char *name)
{
	const struct options_entry *entry;
	const char *found = NULL;
	unsigned distance, best = (unsigned)strlen(name) / 2 + 1;

	for (entry = table; !is_last(entry); entry++) {
		if (entry->name == NULL || !usable(entry)) {
			continue;
		}
		distance = options_distance(name, entry->name);
		if (strlen(name) >= 3 &&
		    strncmp(entry->name, name, strlen(name)) == 0) {
			distance = 0;
		}
		if (distance < best) {
			best = distance;
			found = entry->name;
		}
	}
	return found;
}

static int
unknown_long(const struct options *o, const char *name, struct error *error)
{
	const char *near = nearest(o->table, name);
	char shown[96];

	quote_text(shown, sizeof(shown), name);
	if (near == NULL) {
		error_set(error, WIRE_STEP_USAGE, 0, "unknown option --%s; "
		    "see sandmux %s --help", shown, o->argv[0]);
	} else {
		error_set(error, WIRE_STEP_USAGE, 0, "unknown option --%s; "
		    "did you mean --%s?", shown, near);
	}
	return -1;
}

static int
unknown_short(const struct options *o, const char *at, struct error *error)
{
	const struct options_entry *entry;
	const char *word = o->argv[o->at] + 1, *near;
	char shown[96];
	int other = *at ^ 0x20;

	quote_bytes(shown, sizeof(shown), (const uint8_t *)at, 1);
	for (entry = o->table; !is_last(entry); entry++) {
		if (entry->id == other && usable(entry)) {
			error_set(error, WIRE_STEP_USAGE, 0, "unknown option "
			    "-%s; did you mean -%c?", shown, other);
			return -1;
		}
	}
	near = at == word ? nearest(o->table, word) : NULL;
	if (near != NULL && strlen(word) > 1) {
		quote_text(shown, sizeof(shown), word);
		error_set(error, WIRE_STEP_USAGE, 0, "unknown option -%s; "
		    "did you mean --%s?", shown, near);
		return -1;
	}
	error_set(error, WIRE_STEP_USAGE, 0, "unknown option -%s; see "
	    "sandmux %s --help", shown, o->argv[0]);
	return -1;
}

static int
later(const struct options_entry *entry, struct error *error)
{
	if (entry->id < 256) {
		error_set(error, WIRE_STEP_USAGE, 0, "-%c, --%s: not in this "
		    "version yet", entry->id, entry->name);
	} else {
		error_set(error, WIRE_STEP_USAGE, 0, "--%s: not in this "
		    "version yet", entry->name);
	}
	return -1;
}

static int
long_option(struct options *o, struct error *error)
{
	const char *name = o->argv[o->at] + 2;
	const char *equals = strchr(name, '=');
	size_t len = equals == NULL ? strlen(name) : (size_t)(equals - name);
	const struct options_entry *entry;
	char word[OPTIONS_WORD * 2] = "";

	for (entry = o->table; !is_last(entry); entry++) {
		if (entry->name != NULL && strlen(entry->name) == len &&
		    memcmp(entry->name, name, len) == 0) {
			break;
		}
	}
	if (is_last(entry)) {
		memcpy(word, name, len < sizeof(word) ? len :
		    sizeof(word) - 1);
		return unknown_long(o, word, error);
	}
	if (entry->kind == OPTIONS_LATER) {
		return later(entry, error);
	}
	if (entry->kind == OPTIONS_FLAG && equals != NULL) {
		error_set(error, WIRE_STEP_USAGE, 0, "--%s takes no value",
		    entry->name);
		return -1;
	}
	o->at++;
	o->value = equals == NULL ? NULL : equals + 1;
	if (entry->kind == OPTIONS_VALUE && equals == NULL) {
		if (o->at >= o->argc) {
			error_set(error, WIRE_STEP_USAGE, 0,
			    "--%s needs a value", entry->name);
			return -1;
		}
		o->value = o->argv[o->at++];
	}
	return entry->id;
}

static int
short_option(struct options *o, struct error *error)
{
	const struct options_entry *entry;
	const char *at = o->more;

	for (entry = o->table; !is_last(entry); entry++) {
		if (entry->id == *at && entry->id < 256) {
			break;
		}
	}
	if (is_last(entry)) {
		return unknown_short(o, at, error);
	}
	if (entry->kind == OPTIONS_LATER) {
		return later(entry, error);
	}
	if (entry->kind == OPTIONS_FLAG) {
		o->more = at[1] == '\0' ? NULL : at + 1;
		o->at += at[1] == '\0';
		return entry->id;
	}
	o->more = NULL;
	o->at++;
	if (at[1] != '\0') {
		o->value = at[1] == '=' ? at + 2 : at + 1;
	} else if (o->at < o->argc) {
		o->value = o->argv[o->at++];
	} else {
		error_set(error, WIRE_STEP_USAGE, 0, "-%c needs a value", *at);
		return -1;
	}
	return entry->id;
}

int
options_next(struct options *o, struct error *error)
{
	const char *word;

	o->value = NULL;
	if (o->more != NULL) {
		return short_option(o, error);
	}
	if (o->at == 0) {
		o->at = 1;
	}
	if (o->at >= o->argc) {
		return 0;
	}
	word = o->argv[o->at];
	if (word[0] != '-' || word[1] == '\0') {
		return 0;
	}
	if (strcmp(word, "--") == 0) {
		o->at++;
		return 0;
	}
	if (word[1] == '-') {
		return long_option(o, error);
	}
	o->more = word + 1;
	return short_option(o, error);
}

void
options_skip_dashes(struct options *o)
{
	if (o->at < o->argc && strcmp(o->argv[o->at], "--") == 0) {
		o->at++;
	}
}

/* ---- values --------------------------------------------------------- */

static int
bad_value(const char *text, const char *what, const char *want,
    struct error *error)
{
	char shown[64];

	quote_text(shown, sizeof(shown), text);
	error_set(error, WIRE_STEP_USAGE, 0, "%s: \"%s\" is not %s", what,
	    shown, want);
	return -1;
}

int
options_number(const char *text, const char *what, uint64_t max,
    uint64_t *value, struct error *error)
{
	const char *at = text;
	uint64_t digit;

	for (*value = 0; *at >= '0' && *at <= '9'; at++) {
		digit = (uint64_t)(*at - '0');
		if (digit > max || *value > (max - digit) / 10) {
			return bad_value(text, what, "in its range", error);
		}
		*value = *value * 10 + digit;
	}
	if (*at != '\0' || at == text) {
		return bad_value(text, what, "a number", error);
	}
	return 0;
}

int
options_duration(const char *text, const char *what, uint64_t *ms,
    struct error *error)
{
	static const char want[] = "a time; write 30, 1.5s, 2m, 300ms or 1h";
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {
		{ "", 1000000 }, { "s", 1000000 }, { "ms", 1000 },
		{ "m", 60000000 }, { "h", 3600000000u }
	};
	uint64_t whole = 0, part = 0, scale = 1;
	const char *at = text;
	size_t i, digits = 0;

	for (; *at >= '0' && *at <= '9' && digits < 9; at++, digits++) {
		whole = whole * 10 + (uint64_t)(*at - '0');
	}
	if (*at == '.') {
		for (at++; *at >= '0' && *at <= '9'; at++) {
			digits++;
			if (scale < 1000000) {
				part = part * 10 + (uint64_t)(*at - '0');
				scale *= 10;
			}
		}
	}
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (digits > 0 && strcmp(at, units[i].name) == 0) {
			*ms = (whole * units[i].us + part * units[i].us /
			    scale + 999) / 1000;
			return 0;
		}
	}
	return bad_value(text, what, want, error);
}

int
options_size(const char *text, const char *what, uint64_t max,
    uint64_t *bytes, struct error *error)
{
	static const char units[] = "bkmg";
	size_t len = strlen(text);
	unsigned shift = 0;
	char digits[24];
	const char *unit = len > 1 && text[len - 1] != '\0' ?
	    strchr(units, text[len - 1] | 0x20) : NULL;

	if (unit != NULL) {
		shift = (unsigned)(unit - units) * 10;
		len--;
	}
	if (len == 0 || len >= sizeof(digits) ||
	    strspn(text, "0123456789") != len) {
		return bad_value(text, what, "a size; write 65536, 64K, 10M "
		    "or 1G", error);
	}
	memcpy(digits, text, len);
	digits[len] = '\0';
	if (options_number(digits, what, max >> shift, bytes, error) < 0) {
		return -1;
	}
	*bytes <<= shift;
	return 0;
}

int
options_mode(const char *text, const char *what, mode_t *mode,
    struct error *error)
{
	size_t len = strlen(text), i;

	*mode = 0;
	if (len == 0 || len > 5 || strspn(text, "01234567") != len) {
		return bad_value(text, what, "a mode; write 644 or 0755",
		    error);
	}
	for (i = 0; i < len; i++) {
		*mode = (mode_t)(*mode << 3 | (mode_t)(text[i] - '0'));
	}
	return *mode > 07777 ? bad_value(text, what, "a mode; 7777 is the "
	    "largest", error) : 0;
}

int
options_signal(const char *text, const char *what, unsigned *number,
    struct error *error)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	uint64_t value;
	unsigned i;

	for (i = 1; i <= OPTIONS_SIGNALS; i++) {
		if (words_signal(i) != NULL &&
		    strcasecmp(words_signal(i) + 3, name) == 0) {
			*number = i;
			return 0;
		}
	}
	if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) ||
	    options_number(text, what, OPTIONS_SIGNALS, &value, error) < 0 ||
	    value == 0) {
		return bad_value(text, what, "a signal; write TERM, SIGTERM "
		    "or a number from 1 to 64", error);
	}
	*number = (unsigned)value;
	return 0;
}
