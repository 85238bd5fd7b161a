/* SPDX-License-Identifier: MIT */
/*
 * transport_docker_life.c - containers that up makes: create, remove, list.
 *
 * They carry labels, so that ours are found without a record and nobody
 * else's is touched.  The agent is put in before the start, and waits as the
 * main process where the configuration names none: the image may be empty.
 */
#include "transport_docker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LABEL_OWNER "sandmux.owner"
#define LABEL_NAME "sandmux.name"
#define LABEL_KEY "sandmux.key"
#define AGENT_DIR "/usr/bin/"
#define WAITS "wait"			/* the agent's word for doing nothing */
#define GONE_MS 100			/* between two looks */
#define ID_DIGITS 64u

static struct runcmd *
begin(struct transport_place *place, struct argv *argv, const char *verb,
    struct error *error)
{
	const struct transport_docker_kin *kin = place->transport->kin;
	struct runcmd *cmd = calloc(1, sizeof(*cmd));

	transport_docker_start(place, argv, verb);
	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "%s %s",
		    kin->program, verb);
	} else if (place->facts.program[0] == '\0' &&
	    transport_program(place, kin->program, kin->cure, error) < 0) {
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
		error_set(error, WIRE_STEP_START, 0, "`%s %s` failed",
		    argv->words[0], argv->words[1]);
		runcmd_blame(cmd, error);
		return -1;
	}
	return 0;
}

/* Which line of the Dockerfile it was, if the builder has told. */
static void
name_step(const struct runcmd *cmd, struct error *error)
{
	size_t used = strlen(error->text);
	const char *at, *step = NULL;

	for (at = cmd->out; at != NULL && *at != '\0';
	    at = strchr(at, '\n') == NULL ? NULL : strchr(at, '\n') + 1) {
		if (strncasecmp(at, "step ", 5) == 0) {
			step = at;
		}
	}
	if (step != NULL) {
		snprintf(error->text + used, sizeof(error->text) - used,
		    ", at \"%.*s\"", (int)strcspn(step, "\r\n"), step);
	}
}

int
transport_build(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	const struct sandbox *s = place->sandbox;
	struct argv argv;
	struct runcmd *cmd;
	int rc = -1;

	place->facts.program[0] = '\0';	/* it may be another transport's */
	cmd = begin(place, &argv, "build", error);
	if (cmd != NULL) {
		argv_add(&argv, "-t");
		argv_add(&argv, s->image);
		argv_add(&argv, s->build);
		rc = finish(place, cmd, &argv, deadline, error);
		if (rc < 0) {
			name_step(cmd, error);
		}
	}
	free(cmd);
	return rc;
}

static void
create_words(const struct transport_place *place, const struct sandbox *s,
    struct argv *argv)
{
	const struct transport_docker_kin *kin = place->transport->kin;

	if (kin->create_option != NULL) {
		argv_add(argv, kin->create_option);
	}
	argv_add(argv, "--name");
	argv_add(argv, s->name);
	argv_add(argv, "--label");
	argv_format(argv, LABEL_OWNER "=%s", place->owner);
	argv_add(argv, "--label");
	argv_format(argv, LABEL_NAME "=%s", s->name);
	argv_add(argv, "--label");
	argv_format(argv, LABEL_KEY "=%s", s->key);
	transport_words(argv, s->create_args);
	if (!s->has_command) {
		/* The image may have no program that only waits. */
		argv_add(argv, "--entrypoint");
		argv_add(argv, s->agent);
	}
	argv_add(argv, s->image);
	if (s->has_command) {
		transport_words(argv, s->command);
	} else {
		argv_add(argv, WAITS);
	}
}

/* The id that is the last line of its stdout, into id[ID_DIGITS + 1]. */
static bool
take_id(const struct runcmd *cmd, char *id)
{
	size_t len = cmd->out_len;

	while (len > 0 && cmd->out[len - 1] == '\n') {
		len--;
	}
	if (len < ID_DIGITS) {
		return false;
	}
	memcpy(id, cmd->out + len - ID_DIGITS, ID_DIGITS);
	id[ID_DIGITS] = '\0';
	return strspn(id, "0123456789abcdef") == ID_DIGITS;
}

static int
create_container(struct transport_place *place, struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, "create", error);
	char id[ID_DIGITS + 1];
	int rc = -1;

	if (cmd == NULL) {
		return -1;
	}
	create_words(place, s, &argv);
	cmd->cwd = s->base;
	if (finish(place, cmd, &argv, deadline, error) == 0) {
		if (take_id(cmd, id)) {
			rc = sandbox_set(&s->container, id);
		} else {
			error_set(error, WIRE_STEP_START, 0, "`%s create` "
			    "named no container", argv.words[0]);
			runcmd_blame(cmd, error);
		}
	}
	free(cmd);
	return rc;
}

/*
 * Ours into the container before it starts, root's and unreadable.  On a
 * read-only root the image's own must do.
 */
static int
put_agent(struct transport_place *place, struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	struct runcmd *cmd;
	struct argv argv;
	struct embed embed;
	int rc = -1;

	if (s->agent_mode == SANDBOX_AGENT_NEVER) {
		return 0;
	}
	cmd = begin(place, &argv, "cp", error);
	if (cmd == NULL) {
		return -1;
	}
	transport_docker_look_up_arch(place, cmd, s->image, deadline);
	snprintf(place->facts.id, sizeof(place->facts.id), "%s",
	    s->container);
	if (embed_find(place->facts.arch, &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "this program has "
		    "agents for %s only, and the image is for %s",
		    embed_list(), place->facts.arch);
	} else {
		rc = transport_docker_copy(place, cmd, s->agent, 0711,
		    &embed, deadline, error);
		if (rc < 0 && s->agent_mode == SANDBOX_AGENT_AUTO &&
		    strcasestr(cmd->err, "read-only") != NULL) {
			rc = 0;
		}
	}
	free(cmd);
	return rc;
}

/* What a container that ended at once has said. */
static void
ended(struct transport_place *place, const struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	struct argv argv;
	struct error ignored;
	struct runcmd *cmd = begin(place, &argv, "logs", &ignored);

	error_set(error, WIRE_STEP_START, 0, "its command ended at once%s",
	    s->has_command ? "; leave `command` out to have it kept alive" :
	    "; is the agent in the image another version's?");
	if (cmd != NULL) {
		argv_add(&argv, "--tail");
		argv_add(&argv, "5");
		argv_add(&argv, s->container);
		if (transport_run(place, cmd, &argv, deadline, &ignored) == 0) {
			runcmd_blame(cmd, error);
		}
	}
	free(cmd);
}

static int
start_container(struct transport_place *place, struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, "start", error);
	int rc = -1;

	if (cmd != NULL) {
		argv_add(&argv, s->container);
		rc = finish(place, cmd, &argv, deadline, error);
	}
	free(cmd);
	if (rc == 0 && transport_docker_resolve(place, deadline, error) < 0) {
		if (strstr(error->text, " is exited") != NULL ||
		    strstr(error->text, " is stopped") != NULL) {
			ended(place, s, deadline, error);
		}
		rc = -1;
	}
	return rc;
}

int
transport_docker_create(struct transport_place *place, struct sandbox *s,
    uint64_t deadline, struct error *error)
{
	char path[TRANSPORT_PATH_MAX];

	if (s->agent == NULL) {
		snprintf(path, sizeof(path), AGENT_DIR "%s",
		    s->agent_name != NULL ? s->agent_name :
		    strrchr(TRANSPORT_BAKED, '/') + 1);
		sandbox_set(&s->agent, path);
	}
	if (create_container(place, s, deadline, error) < 0 ||
	    put_agent(place, s, deadline, error) < 0 ||
	    start_container(place, s, deadline, error) < 0) {
		return -1;
	}
	/* It is there now: links look for it, and put nothing. */
	s->agent_mode = SANDBOX_AGENT_NEVER;
	if (s->workdir == NULL) {
		sandbox_set(&s->workdir, place->facts.workdir[0] == '/' ?
		    place->facts.workdir : "/");
	}
	return 0;
}

/* Our own by its labels, if its id is not known: 0, 1: none, or -1. */
static int
look_up(struct transport_place *place, char *id, uint64_t deadline,
    struct error *error)
{
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, "ps", error);
	int rc = -1;

	if (cmd == NULL) {
		return -1;
	}
	argv_add(&argv, "-aq");
	argv_add(&argv, "--no-trunc");
	argv_add(&argv, "--filter");
	argv_format(&argv, "label=" LABEL_OWNER "=%s", place->owner);
	argv_add(&argv, "--filter");
	argv_format(&argv, "label=" LABEL_NAME "=%s", place->sandbox->name);
	if (finish(place, cmd, &argv, deadline, error) == 0) {
		rc = take_id(cmd, id) ? 0 : 1;
	}
	free(cmd);
	return rc;
}

int
transport_docker_destroy(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	const struct timespec pause = { .tv_nsec = GONE_MS * 1000000L };
	const char *known = place->sandbox->container;
	char id[TRANSPORT_ID_MAX] = "";
	struct argv argv;
	struct runcmd *cmd;
	int rc = 0;

	if (known != NULL) {
		snprintf(id, sizeof(id), "%s", known);
	} else {
		rc = look_up(place, id, deadline, error);
	}
	cmd = rc == 0 ? begin(place, &argv, "rm", error) : NULL;
	if (cmd == NULL) {
		return rc == 0 ? -1 : rc;
	}
	argv_add(&argv, "-f");
	argv_add(&argv, "-v");
	argv_add(&argv, id);
	/* Another's removal is under way: until it is done. */
	while ((rc = finish(place, cmd, &argv, deadline, error)) < 0 &&
	    strcasestr(cmd->err, "already in progress") != NULL) {
		nanosleep(&pause, NULL);
	}
	/* Some say so, some with status 0, some name nothing removed. */
	if (strcasestr(cmd->err, "no such container") != NULL ||
	    (rc == 0 && cmd->out_len == 0)) {
		rc = 1;
	}
	free(cmd);
	return rc;
}

/* The next field of a line, up to a tab; NUL-terminated. */
static char *
field(char **at)
{
	char *start = *at;

	*at += strcspn(start, "\t");
	if (**at != '\0') {
		*(*at)++ = '\0';
	}
	return start;
}

/* What `ps` says for a running one: a word, or how long. */
static bool
running(const char *state)
{
	return strcmp(state, "running") == 0 || strncmp(state, "Up ", 3) == 0;
}

int
transport_docker_list(struct transport_place *place,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
    uint64_t deadline, struct error *error)
{
	const struct transport_docker_kin *kin = place->transport->kin;
	struct argv argv;
	struct runcmd *cmd = begin(place, &argv, "ps", error);
	struct transport_found one;
	char *at, *next, *end;
	int rc;

	if (cmd == NULL) {
		return -1;
	}
	argv_add(&argv, "-a");
	argv_add(&argv, "--no-trunc");
	argv_add(&argv, "--filter");
	argv_format(&argv, "label=" LABEL_OWNER "=%s", place->owner);
	argv_format(&argv, "--format={{%s \"" LABEL_NAME "\"}}\t{{.ID}}\t"
	    "{{.State}}\t{{%s \"" LABEL_KEY "\"}}", kin->label, kin->label);
	rc = finish(place, cmd, &argv, deadline, error);
	for (at = cmd->out; rc == 0 && *at != '\0'; at = next) {
		end = at + strcspn(at, "\n");
		next = *end == '\0' ? end : end + 1;
		*end = '\0';
		one.name = field(&at);
		one.id = field(&at);
		one.running = running(field(&at));
		one.key = field(&at);
		/* A key of several lines begins lines of its own. */
		if (strlen(one.id) == ID_DIGITS &&
		    strspn(one.id, "0123456789abcdef") == ID_DIGITS) {
			found(ctx, &one);
		}
	}
	free(cmd);
	return rc;
}
