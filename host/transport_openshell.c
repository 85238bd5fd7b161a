/* SPDX-License-Identifier: MIT */
/*
 * transport_openshell.c - a sandbox of OpenShell, through its CLI.
 *
 * Only --tty with a terminal as stdin is a two-way stream there; piped stdin
 * is read to its end before the command starts, which is how the agent's
 * file comes in.  Flags are looked up in --help first, because an unknown
 * one would be taken as the command.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "embed.h"
#include "transport.h"
#include "transport_openshell.h"

#define KNOWN 8			/* programs whose flags are remembered */
#define NO_LOGIN "--no-login-shell"
#define USAGE 2				/* its status for words it does not know */

/* What --help of a program said, as long as the program stays the same. */
static struct known {
	char program[PATH_MAX];
	int64_t mtime;
	uint32_t flags;
} known[KNOWN];
static unsigned known_next;

/*
 * Puts a file of ours into the first directory that takes and runs one:
 * $1 is a word that marks our lines in what login files print, $2 the name,
 * the rest are directories.  One line, since newlines are refused in places.
 */
static const char place_script[] =
    "t=$1; n=$2; shift 2; for d in \"$@\"; do "
    "case $d in HOME) d=$HOME;; CWD) d=$PWD;; esac; f=$d/$n; "
    "if ! e=$( (umask 077; set -C; printf '#!/bin/sh\\nexit 0\\n' >\"$f\") "
    "2>&1); then echo \"$t no $d: $e\"; continue; fi; "
    "if e=$( (chmod 700 \"$f\" && \"$f\") 2>&1) && cat >\"$f\"; then "
    "echo \"$t at $(wc -c <\"$f\") $f\"; exit 0; fi; "
    "echo \"$t no $d: not executable: $e\"; rm -f \"$f\"; done; exit 1";

static const char append_script[] =
    "cat >>\"$2\" && echo \"$1 at $(wc -c <\"$2\") $2\"";

/* $2 is a path, or the name of what may be in any of the directories. */
static const char clean_script[] =
    "t=$1; n=$2; shift 2; s=; for d in \"$@\"; do "
    "case $d in HOME) d=$HOME;; CWD) d=$PWD;; esac; rm -f \"$d/$n\"; "
    "[ -e \"$d/$n\" ] && s=yes; done; [ \"$s\" ] || echo \"$t gone\"";

static const char *const places[] = {
	"/tmp", "/var/tmp", "HOME", "CWD", "/dev/shm", "/run",
};

/* Whether exec_args have it already: twice is an error to the CLI. */
static bool
said(const struct sandbox *sandbox, const char *option)
{
	struct wire_list list = { 0 };
	struct wire_bytes item;

	if (sandbox != NULL) {
		list = items_list(&sandbox->exec_args);
	}
	while (wire_next(&list, &item)) {
		if (item.len == strlen(option) &&
		    memcmp(item.at, option, item.len) == 0) {
			return true;
		}
	}
	return false;
}

static void
exec_words(const struct transport_place *place, struct argv *argv)
{
	argv_add(argv, PROGRAM);
	argv_add(argv, "sandbox");
	argv_add(argv, "exec");
	argv_add(argv, "-n");
	argv_add(argv, place->target.name);
	if (place->sandbox != NULL) {
		transport_words(argv, place->sandbox->exec_args);
	}
	if ((place->facts.flags & TRANSPORT_NO_LOGIN_SHELL) != 0 &&
	    !said(place->sandbox, NO_LOGIN)) {
		argv_add(argv, NO_LOGIN);
	}
}

/* ---- resolve ---------------------------------------------------------- */

/* The option as a word of its own, not a part of another or of a text. */
bool
transport_openshell_lists(const char *help, const char *option)
{
	size_t len = strlen(option);
	const char *at;

	for (at = strstr(help, option); at != NULL;
	    at = strstr(at + 1, option)) {
		if ((at == help || strchr(" \t\n,", at[-1]) != NULL) &&
		    (at[len] == '\0' || strchr(" \t\r\n,=", at[len]) !=
		    NULL)) {
			return true;
		}
	}
	return false;
}

static int
probe(struct transport_place *place, struct runcmd *cmd, uint64_t deadline,
    struct error *error)
{
	struct argv argv;

	argv_init(&argv);
	argv_add(&argv, PROGRAM);
	argv_add(&argv, "sandbox");
	argv_add(&argv, "exec");
	argv_add(&argv, "--help");
	if (transport_run(place, cmd, &argv, deadline, error) < 0) {
		return -1;
	}
	if (cmd->status != 0 || !transport_openshell_lists(cmd->out, "--tty")) {
		error_set(error, WIRE_STEP_START, 0, "%s: `openshell sandbox "
		    "exec --help` does not list --tty; update OpenShell",
		    place->facts.program);
		runcmd_blame(cmd, error);
		return -1;
	}
	place->facts.flags = TRANSPORT_FLAGS_KNOWN |
	    (transport_openshell_lists(cmd->out, NO_LOGIN) ? TRANSPORT_NO_LOGIN_SHELL : 0);
	return 0;
}

static bool
recall(struct transport_place *place)
{
	unsigned i;

	for (i = 0; i < KNOWN; i++) {
		if (known[i].flags != 0 &&
		    known[i].mtime == place->facts.program_mtime &&
		    strcmp(known[i].program, place->facts.program) == 0) {
			place->facts.flags = known[i].flags;
			return true;
		}
	}
	return false;
}

static void
learn(const struct transport_facts *facts)
{
	struct known *k;
	unsigned i;

	for (i = 0; i < KNOWN; i++) {
		if (strcmp(known[i].program, facts->program) == 0) {
			break;
		}
	}
	k = &known[i < KNOWN ? i : known_next++ % KNOWN];
	strcpy(k->program, facts->program);
	k->mtime = facts->program_mtime;
	k->flags = facts->flags;
}

/* The CLI names no id that exec takes: the name is what there is. */
static int
resolve(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd;
	int rc = 0;

	if (transport_program(place, PROGRAM, CURE, error) < 0) {
		return -1;
	}
	if (!recall(place)) {
		cmd = calloc(1, sizeof(*cmd));
		if (cmd == NULL) {
			error_set(error, WIRE_STEP_START, errno, PROGRAM);
			return -1;
		}
		rc = probe(place, cmd, deadline, error);
		free(cmd);
	}
	snprintf(place->facts.id, sizeof(place->facts.id), "%s",
	    place->target.name);
	if ((place->facts.flags & TRANSPORT_NO_LOGIN_SHELL) == 0) {
		snprintf(place->facts.warning, sizeof(place->facts.warning),
		    "this openshell has no " NO_LOGIN ": login files run "
		    "before the agent and can print into the link or end it");
	}
	return rc;
}

/* ---- look --------------------------------------------------------------- */

/* Whether one of the text's lines is the name. */
static bool
names(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *at;

	for (at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
		if ((at == text || at[-1] == '\n') &&
		    (at[len] == '\0' || at[len] == '\n' || at[len] == '\r')) {
			return true;
		}
	}
	return false;
}

static int
look(struct transport_place *place, uint64_t deadline, struct error *error)
{
	struct runcmd *cmd = calloc(1, sizeof(*cmd));
	struct argv argv;
	int rc = -1;

	error_set(error, WIRE_STEP_UNREACHABLE, errno, PROGRAM);
	if (cmd == NULL) {
		return -1;
	}
	argv_init(&argv);
	argv_add(&argv, PROGRAM);
	argv_add(&argv, "sandbox");
	argv_add(&argv, "list");
	argv_add(&argv, "--names");
	if (transport_run(place, cmd, &argv, deadline, error) < 0) {
		error->step = WIRE_STEP_UNREACHABLE;
	} else if (cmd->status == USAGE) {
		rc = 0;			/* this CLI cannot tell */
	} else if (cmd->status != 0) {
		error_set(error, WIRE_STEP_UNREACHABLE, 0, "openshell:%s: "
		    "`openshell sandbox list` failed", place->target.name);
		runcmd_blame(cmd, error);
	} else if (!names(cmd->out, place->target.name)) {
		error_set(error, WIRE_STEP_SANDBOX, 0, "openshell:%s: there "
		    "is no such sandbox any more", place->target.name);
	} else {
		rc = 0;
	}
	free(cmd);
	return rc;
}

/* ---- inject ----------------------------------------------------------- */

/*
 * The next line that begins with the mark and word (" at ", " no "), behind
 * both, at or after from; NULL: none.  What surrounds it is any bytes.
 */
static const char *
find_line(const struct runcmd *cmd, const char *from, const char *mark,
    const char *word)
{
	const char *end = cmd->out + cmd->out_len;
	char head[64];
	size_t len = (size_t)snprintf(head, sizeof(head), "%s%s", mark, word);
	const char *at = memmem(from, (size_t)(end - from), head, len);

	return at == NULL ? NULL : at + len;
}

/* The script did not say that it is done: why, from what it did say. */
static void
refused(const struct transport_place *place, const struct runcmd *cmd,
    const char *mark, struct error *error)
{
	size_t used, cap = sizeof(error->text);
	const char *at = find_line(cmd, cmd->out, mark, " no ");

	if (at == NULL) {
		error_set(error, WIRE_STEP_START, 0, "openshell:%s: the agent "
		    "does not run there and cannot be put there: the "
		    "command that would do it did not run%s",
		    place->target.name, cmd->status == 0 ? " (a login file "
		    "may exec or exit: look at ~/.bash_profile and "
		    "~/.profile there)" : "");
		runcmd_blame(cmd, error);
		return;
	}
	error_set(error, WIRE_STEP_START, 0, "openshell:%s: the agent is not "
	    "in the image and cannot be put there", place->target.name);
	for (; at != NULL; at = find_line(cmd, at, mark, " no ")) {
		used = strlen(error->text);
		snprintf(error->text + used, cap - used, "; %.*s",
		    (int)strcspn(at, "\r\n"), at);
	}
	used = strlen(error->text);
	snprintf(error->text + used, cap - used, "; " TRANSPORT_BAKE);
}

/* "MARK at SIZE PATH" anywhere in the output, with the size we expect. */
static bool
arrived(struct transport_place *place, const struct runcmd *cmd,
    const char *mark, size_t expected)
{
	const char *at = find_line(cmd, cmd->out, mark, " at ");
	char *end;
	size_t len;

	if (at == NULL || strtoull(at, &end, 10) != expected ||
	    *end != ' ') {
		return false;
	}
	len = strcspn(end + 1, "\r\n");
	if (len == 0 || len >= sizeof(place->facts.agent) || end[1] != '/') {
		return false;
	}
	memcpy(place->facts.agent, end + 1, len);
	place->facts.agent[len] = '\0';
	return true;
}

static void
add_places(struct argv *argv)
{
	size_t i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		argv_add(argv, places[i]);
	}
}

static void
shell_words(const struct transport_place *place, struct argv *argv,
    const char *script)
{
	argv_init(argv);
	exec_words(place, argv);
	argv_add(argv, "--");
	argv_add(argv, "/bin/sh");
	argv_add(argv, "-c");
	argv_add(argv, script);
	argv_add(argv, "sh");
}

/*
 * Removes name from dir, or from wherever it may be (NULL).  0 once it is
 * seen not to be there, or -1 with *error, which names it.
 */
static int
clear(struct transport_place *place, struct runcmd *cmd, const char *dir,
    const char *name, uint64_t deadline, struct error *error)
{
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1], mark[32];
	struct argv argv;

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), hex);
	snprintf(mark, sizeof(mark), "sandmux-%s", hex);
	shell_words(place, &argv, clean_script);
	argv_add(&argv, mark);
	argv_add(&argv, name);
	if (dir != NULL) {
		argv_add(&argv, dir);
	} else {
		add_places(&argv);
	}
	cmd->input = NULL;
	if (transport_run(place, cmd, &argv, deadline, error) == 0) {
		if (find_line(cmd, cmd->out, mark, " gone") != NULL) {
			return 0;
		}
		error_set(error, WIRE_STEP_START, 0, "it is still there");
		runcmd_blame(cmd, error);
	}
	return -1;
}

/* Whatever of the file is there must not stay, or *error names it. */
static void
take_back(struct transport_place *place, struct runcmd *cmd,
    const char *name, struct error *error)
{
	uint64_t by = clock_now() + TRANSPORT_CLEAN_MS * (uint64_t)CLOCK_MS;
	size_t used = strlen(error->text);
	const char *path = place->facts.agent;
	struct error why;

	if (clear(place, cmd, NULL, name, by, &why) < 0 &&
	    (look(place, by, &why) == 0 || why.step != WIRE_STEP_SANDBOX)) {
		snprintf(error->text + used, sizeof(error->text) - used,
		    "; what may have arrived of %s could not be removed",
		    path[0] != '\0' ? path : name);
	} else {
		place->facts.agent[0] = '\0';
	}
}

static int
send_piece(struct transport_place *place, struct runcmd *cmd,
    const char *name, const char *mark, size_t expected, uint64_t deadline,
    struct error *error)
{
	bool first = place->facts.agent[0] == '\0';
	struct argv argv;

	shell_words(place, &argv, first ? place_script : append_script);
	argv_add(&argv, mark);
	if (first) {
		argv_add(&argv, name);
		add_places(&argv);
	} else {
		argv_add(&argv, place->facts.agent);
	}
	if (transport_run(place, cmd, &argv, deadline, error) < 0) {
		return -1;
	}
	if (!arrived(place, cmd, mark, expected)) {
		refused(place, cmd, mark, error);
		return -1;
	}
	return 0;
}

static int
send_all(struct transport_place *place, struct runcmd *cmd,
    const struct embed *embed, uint64_t deadline, struct error *error)
{
	uint8_t random[16];
	char hex[2 * sizeof(random) + 1], name[96], mark[32];
	size_t done = 0;

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), hex);
	snprintf(name, sizeof(name), "%s-%.16s", transport_agent_name(place),
	    hex);
	snprintf(mark, sizeof(mark), "sandmux-%.16s", hex + 16);
	place->facts.agent[0] = '\0';
	while (done < embed->len) {
		cmd->input = embed->data + done;
		cmd->input_len = embed->len - done < TRANSPORT_PIECE ?
		    embed->len - done : TRANSPORT_PIECE;
		done += cmd->input_len;
		if (send_piece(place, cmd, name, mark, done, deadline,
		    error) < 0) {
			take_back(place, cmd, name, error);
			return -1;
		}
	}
	strcpy(place->facts.hash, embed->hash);
	return 0;
}

static int
inject(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd;
	struct embed embed;
	int rc;

	if (embed_find(place->facts.arch, &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "this program has "
		    "agents for %s only", embed_list());
		return -1;
	}
	cmd = calloc(1, sizeof(*cmd));
	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, PROGRAM);
		return -1;
	}
	rc = send_all(place, cmd, &embed, deadline, error);
	free(cmd);
	return rc;
}

/* ---- the link --------------------------------------------------------- */

static void
link_words(const struct transport_place *place, struct argv *argv)
{
	exec_words(place, argv);
	argv_add(argv, "--tty");
	argv_add(argv, "--");
}

/* By the shell: what is damaged is not run, and bash is in every sandbox. */
static int
remove_file(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd = calloc(1, sizeof(*cmd));
	char dir[TRANSPORT_PATH_MAX];
	char *name;
	struct error why;
	int rc = -1;

	strcpy(dir, place->facts.agent);
	name = strrchr(dir, '/');
	if (cmd == NULL || name == NULL) {
		error_set(error, WIRE_STEP_START, errno, PROGRAM);
	} else {
		*name++ = '\0';
		rc = clear(place, cmd, dir, name, deadline, &why);
		if (rc < 0) {
			error_set(error, WIRE_STEP_START, why.number,
			    "openshell:%s: the agent's file %s cannot be "
			    "removed there: %.400s", place->target.name,
			    place->facts.agent, why.text);
		}
	}
	free(cmd);
	return rc;
}

const struct transport transport_openshell = {
	.scheme = "openshell",
	.traits = TRANSPORT_PTY | TRANSPORT_SHARED_UID | TRANSPORT_BAKES |
	    TRANSPORT_LOGIN,
	.resolve = resolve,
	.inject = inject,
	.look = look,
	.link = link_words,
	.remove = remove_file,
	.learn = learn,
	.life = &transport_openshell_life,
};
