/* SPDX-License-Identifier: MIT */
/*
 * transport_openshell_life.c - sandboxes that up makes in a gateway: create
 * and wait for the phase, delete, list.
 *
 * What is ours is told by its id, else by its label, else, where the CLI has
 * no labels, by a name that nobody else would give.
 */
#include "transport_openshell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "text.h"

#define LABEL_OWNER "sandmux.owner"
#define LABEL_KEY "sandmux.key"
#define LOOK_MS 200			/* between two looks at a phase */

/* What `sandbox get` or `list` says of one. */
struct seen {
	char name[TARGET_NAME_MAX], id[TRANSPORT_ID_MAX], phase[64];
	char owner[64], key[SANDBOX_KEY_MAX + 1];
	bool labels;			/* it has any */
};

/* A document of one of them, or of several. */
struct reader {
	struct seen one;
	unsigned index;			/* of a list's element in hand */
	void (*found)(void *ctx, const struct seen *seen);
	void *ctx;
};

static struct runcmd *
begin(struct transport_place *place, struct argv *argv, const char *verb,
    struct error *error)
{
	struct runcmd *cmd = calloc(1, sizeof(*cmd));

	argv_init(argv);
	argv_add(argv, PROGRAM);
	argv_add(argv, "sandbox");
	argv_add(argv, verb);
	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "openshell sandbox "
		    "%s", verb);
	} else if (place->facts.program[0] == '\0' &&
	    transport_program(place, PROGRAM, CURE, error) < 0) {
		free(cmd);
		cmd = NULL;
	}
	return cmd;
}

/* Run it; what it said if it failed.  0, or -1 with *error. */
static int
finish(struct transport_place *place, struct runcmd *cmd,
    const struct argv *argv, uint64_t deadline, struct error *error)
{
	if (transport_run(place, cmd, argv, deadline, error) < 0) {
		return -1;
	}
	if (cmd->status != 0) {
		error_set(error, WIRE_STEP_START, 0, "`openshell sandbox %s` "
		    "failed", argv->words[2]);
		runcmd_blame(cmd, error);
		return -1;
	}
	return 0;
}

static void
keep(char *to, size_t cap, const char *value, size_t len)
{
	snprintf(to, cap, "%.*s", (int)len, value);
}

/* One scalar; "[3].name" in a list, "name" alone. */
static void
take(void *ctx, const char *path, const char *value, size_t len)
{
	struct reader *r = ctx;
	struct seen *one = &r->one;
	char *end;

	if (path[0] == '[') {
		unsigned index = (unsigned)strtoul(path + 1, &end, 10);

		if (index != r->index) {
			r->found(r->ctx, one);
			*one = (struct seen){ 0 };
			r->index = index;
		}
		path = end + 1 + (end[1] == '.');
	}
	if (strcmp(path, "name") == 0) {
		keep(one->name, sizeof(one->name), value, len);
	} else if (strcmp(path, "id") == 0) {
		keep(one->id, sizeof(one->id), value, len);
	} else if (strcmp(path, "phase") == 0) {
		keep(one->phase, sizeof(one->phase), value, len);
	} else if (strncmp(path, "labels.", 7) == 0) {
		one->labels = true;
		if (strcmp(path + 7, LABEL_OWNER) == 0) {
			keep(one->owner, sizeof(one->owner), value, len);
		} else if (strcmp(path + 7, LABEL_KEY) == 0) {
			keep(one->key, sizeof(one->key), value, len);
		}
	}
}

/* `sandbox get NAME`: 0, 1: there is none, or -1 with *error. */
static int
look(struct transport_place *place, struct seen *seen, uint64_t deadline,
    struct error *error)
{
	struct reader r = { .index = 0 };
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, "get", error);
	int rc = -1;

	if (cmd == NULL) {
		return -1;
	}
	argv_add(&argv, place->target.name);
	argv_add(&argv, "-o");
	argv_add(&argv, "json");
	if (finish(place, cmd, &argv, deadline, error) < 0) {
		rc = strcasestr(cmd->err, "not found") != NULL ? 1 : -1;
	} else if (text_json(cmd->out, cmd->out_len, take, &r) < 0 ||
	    r.one.name[0] == '\0') {
		error_set(error, WIRE_STEP_START, 0, "`openshell sandbox get` "
		    "said something that cannot be read");
		runcmd_blame(cmd, error);
	} else {
		rc = 0;
	}
	*seen = r.one;
	free(cmd);
	return rc;
}

/* Which of create's or list's options this version has. */
static int
options_of(struct transport_place *place, const char *verb, char *help,
    size_t cap, uint64_t deadline, struct error *error)
{
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, verb, error);
	int rc = -1;

	if (cmd != NULL) {
		argv_add(&argv, "--help");
		rc = finish(place, cmd, &argv, deadline, error);
		snprintf(help, cap, "%.*s", (int)cap - 1, cmd->out);
	}
	free(cmd);
	return rc;
}

/* create_args may have it: an option that counts once. */
static bool
has_word(const struct items *items, const char *word)
{
	struct wire_list list = items_list(items);
	struct wire_bytes item;

	while (wire_next(&list, &item)) {
		if (item.len == strlen(word) &&
		    memcmp(item.at, word, item.len) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether a gateway takes it as a label's value; it is only for show. */
static bool
is_label(const char *text)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t len = strlen(text), i;

	for (i = 0; i < len; i++) {
		if (strchr(ends, text[i]) == NULL && (i == 0 ||
		    i + 1 == len || strchr("-_.", text[i]) == NULL)) {
			return false;
		}
	}
	return len > 0 && len <= SANDBOX_KEY_MAX;
}

static void
create_words(const struct transport_place *place, const struct sandbox *s,
    const char *help, struct argv *argv)
{
	bool detach = transport_openshell_lists(help, "--detach");

	argv_add(argv, "--name");
	argv_add(argv, s->name);
	argv_add(argv, "--from");
	argv_add(argv, s->image);
	if (s->policy != NULL) {
		argv_add(argv, "--policy");
		argv_add(argv, s->policy);
	}
	if (transport_openshell_lists(help, "--label")) {
		argv_add(argv, "--label");
		argv_format(argv, LABEL_OWNER "=%s", place->owner);
		if (is_label(s->key)) {
			argv_add(argv, "--label");
			argv_format(argv, LABEL_KEY "=%s", s->key);
		}
	}
	transport_words(argv, s->create_args);
	if (detach && !has_word(&s->create_args, "--detach")) {
		argv_add(argv, "--detach");
	}
	argv_add(argv, "--");
	if (s->has_command) {
		transport_words(argv, s->command);
	} else if (detach) {
		/* A sandbox ends with its main command. */
		argv_add(argv, "sleep");
		argv_add(argv, "infinity");
	} else {
		/* Versions without it stay attached to a command that lasts. */
		argv_add(argv, "true");
	}
}

/* Until it is ready, or will never be. */
static int
wait_ready(struct transport_place *place, struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	static const char *const lost[] = {
		"Error", "Completed", "Deleting", "Stopping", "Stopped"
	};
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };
	struct seen seen;
	size_t i;
	int rc;

	for (;;) {
		rc = look(place, &seen, deadline, error);
		if (rc != 0) {
			return -1;
		}
		if (seen.id[0] != '\0') {
			sandbox_set(&s->container, seen.id);
		}
		if (strcasecmp(seen.phase, "Ready") == 0) {
			return 0;
		}
		for (i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
			if (strcasecmp(seen.phase, lost[i]) == 0) {
				error_set(error, WIRE_STEP_START, 0, "the "
				    "sandbox was made, but its phase is %s: "
				    "its command may have ended at once",
				    seen.phase);
				return -1;
			}
		}
		if (clock_now() >= deadline) {
			error_set(error, WIRE_STEP_START, ETIMEDOUT, "the "
			    "sandbox's phase is still %s; timeouts: create "
			    "gives it longer", seen.phase);
			return -1;
		}
		nanosleep(&pause, NULL);
	}
}

static int
create(struct transport_place *place, struct sandbox *s, uint64_t deadline,
    struct error *error)
{
	struct argv argv;
	struct runcmd *cmd;
	char help[16384];
	size_t used;
	int rc = -1;

	if (options_of(place, "create", help, sizeof(help), deadline,
	    error) < 0) {
		return -1;
	}
	cmd = begin(place, &argv, "create", error);
	if (cmd != NULL) {
		create_words(place, s, help, &argv);
		cmd->cwd = s->base;
		rc = finish(place, cmd, &argv, deadline, error);
	}
	if (cmd != NULL && rc < 0 && s->image != NULL) {
		/* The CLI's words need not name it. */
		used = strlen(error->text);
		snprintf(error->text + used, sizeof(error->text) - used,
		    "; the image is %.256s", s->image);
	}
	free(cmd);
	/* As resolve() has it. */
	snprintf(place->facts.id, sizeof(place->facts.id), "%s",
	    place->target.name);
	return rc < 0 ? -1 : wait_ready(place, s, deadline, error);
}

/*
 * Whether what has this name is what we made: by its id, by our label, or,
 * where the CLI keeps no labels, by a name that nobody else would give.
 */
static bool
is_ours(const struct transport_place *place, const struct seen *seen)
{
	const struct sandbox *s = place->sandbox;

	if (s->container != NULL && seen->id[0] != '\0') {
		return strcmp(s->container, seen->id) == 0;
	}
	return strcmp(seen->owner, place->owner) == 0 ||
	    (!seen->labels && strncmp(s->name, SANDBOX_PREFIX,
	    strlen(SANDBOX_PREFIX)) == 0);
}

static int
remove_sandbox(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct argv argv;
	struct runcmd *cmd;
	struct seen seen;
	int rc = look(place, &seen, deadline, error);

	if (rc != 0 || !is_ours(place, &seen)) {
		return rc != 0 ? rc : 1;
	}
	cmd = begin(place, &argv, "delete", error);
	if (cmd == NULL) {
		return -1;
	}
	argv_add(&argv, place->target.name);
	rc = finish(place, cmd, &argv, deadline, error);
	if (rc < 0 && strcasestr(cmd->err, "not found") != NULL) {
		rc = 1;
	}
	free(cmd);
	return rc;
}

struct teller {
	const struct transport_place *place;
	void (*found)(void *ctx, const struct transport_found *found);
	void *ctx;
};

static void
tell(void *ctx, const struct seen *seen)
{
	const struct teller *t = ctx;
	struct transport_found one = { .name = seen->name, .id = seen->id,
	    .key = seen->key,
	    .running = strcasecmp(seen->phase, "Ready") == 0,
	    .unmarked = strcmp(seen->owner, t->place->owner) != 0 };

	if (seen->name[0] != '\0') {
		t->found(t->ctx, &one);
	}
}

static int
list(struct transport_place *place,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
    uint64_t deadline, struct error *error)
{
	struct teller teller = { place, found, ctx };
	struct reader r = { .found = tell, .ctx = &teller };
	struct argv argv;
	struct runcmd *cmd;
	char help[16384];
	int rc;

	if (options_of(place, "list", help, sizeof(help), deadline,
	    error) < 0) {
		return -1;
	}
	cmd = begin(place, &argv, "list", error);
	if (cmd == NULL) {
		return -1;
	}
	argv_add(&argv, "-o");
	argv_add(&argv, "json");
	if (transport_openshell_lists(help, "--limit")) {
		argv_add(&argv, "--limit");
		argv_add(&argv, "1000");
	}
	rc = finish(place, cmd, &argv, deadline, error);
	if (rc == 0 && cmd->out[strspn(cmd->out, " \n")] == '[' &&
	    text_json(cmd->out, cmd->out_len, take, &r) == 0) {
		tell(&teller, &r.one);
	} else if (rc == 0) {
		error_set(error, WIRE_STEP_START, 0, "`openshell sandbox "
		    "list` said something that cannot be read");
		runcmd_blame(cmd, error);
		rc = -1;
	}
	free(cmd);
	return rc;
}

static const char *const no_keys[] = { "agent_user", NULL };
static const char *const no_create_args[] = {
	"--name", "--from", "--help", "-h", "--no-keep", NULL
};
static const char *const no_exec_args[] = {
	"--timeout", "--tty", "--no-tty", "--name", "--help", "-n", "-h",
	NULL
};
static const char *const selects[] = {
	"OPENSHELL_GATEWAY", "OPENSHELL_GATEWAY_ENDPOINT",
	"OPENSHELL_GATEWAY_INSECURE", "OPENSHELL_WORKSPACE",
	"XDG_CONFIG_HOME", "HOME", NULL
};

const struct transport_life transport_openshell_life = {
	.no_keys = no_keys,
	.no_create_args = no_create_args,
	.no_exec_args = no_exec_args,
	.workdir = "/sandbox",
	.select = selects,
	.program = PROGRAM,
	.cure = CURE,
	.create = create,
	.remove = remove_sandbox,
	.list = list,
};
