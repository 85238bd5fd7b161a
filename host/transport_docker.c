/* SPDX-License-Identifier: MIT */
/*
 * transport_docker.c - a container of Docker, through the docker program.
 *
 * The agent comes in by `docker cp` of a tar stream, so the image needs no
 * shell.  It runs as root where root can become other users; jobs are the
 * container's configured user's, as with `docker exec`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "embed.h"
#include "runcmd.h"
#include "transport.h"

#define TAR_BLOCK 512u
#define PROGRAM "docker"
#define CURE "install Docker's client (Debian: docker.io), or add its " \
    "directory to PATH"

static int
run(struct transport_place *place, struct runcmd *cmd,
    const struct argv *argv, uint64_t deadline, struct error *error)
{
	cmd->path = place->facts.program;
	cmd->argv = argv;
	cmd->env = place->child_env;
	cmd->deadline = deadline;
	return runcmd_run(cmd, error);
}

/* The next line of *text into out[cap]; false when there is none. */
static bool
line(char **text, char *out, size_t cap)
{
	size_t len = strcspn(*text, "\n");

	if ((*text)[len] == '\0' || len >= cap) {
		return false;
	}
	memcpy(out, *text, len);
	out[len] = '\0';
	*text += len + 1;
	return true;
}

/* Why `docker inspect` failed, from what it says. */
static void
refused(const struct transport_place *place, const struct runcmd *cmd,
    struct error *error)
{
	if (strcasestr(cmd->err, "no such") != NULL) {
		error_set(error, WIRE_STEP_TARGET, 0, "docker:%s: there is "
		    "no such container; `docker ps -a` lists them",
		    place->target.name);
	} else if (strcasestr(cmd->err, "daemon") != NULL) {
		error_set(error, WIRE_STEP_START, 0, "the Docker daemon "
		    "cannot be reached; is it running, and is DOCKER_HOST "
		    "right?");
		runcmd_blame(cmd, error);
	} else {
		error_set(error, WIRE_STEP_START, 0, "docker:%s: `docker "
		    "inspect` failed", place->target.name);
		runcmd_blame(cmd, error);
	}
}

static int
parse(struct transport_place *place, char *text, struct error *error)
{
	struct transport_facts *facts = &place->facts;
	char status[32], home[32];
	size_t len;

	if (!line(&text, facts->id, sizeof(facts->id)) ||
	    facts->id[0] == '\0' ||
	    facts->id[strspn(facts->id, "0123456789abcdef")] != '\0' ||
	    !line(&text, status, sizeof(status)) ||
	    !line(&text, facts->image, sizeof(facts->image)) ||
	    !line(&text, facts->user, sizeof(facts->user)) ||
	    !line(&text, home, sizeof(home))) {
		error_set(error, WIRE_STEP_START, 0, "docker:%s: `docker "
		    "inspect` said something that cannot be read",
		    place->target.name);
		return -1;
	}
	if (home[0] == 'H') {
		facts->flags |= TRANSPORT_HOME_SET;
	}
	len = strlen(text);	/* the rest, but for its line end */
	snprintf(facts->workdir, sizeof(facts->workdir), "%.*s",
	    len > 0 ? (int)len - 1 : 0, text);
	if (place->sandbox != NULL && place->sandbox->container != NULL &&
	    strcmp(place->sandbox->container, facts->id) != 0) {
		error_set(error, WIRE_STEP_TARGET, 0, "docker:%s is another "
		    "container than the one that `sandmux up` made",
		    place->target.name);
		return -1;
	}
	if (strcmp(status, "running") != 0) {
		error_set(error, WIRE_STEP_START, 0, "docker:%s is %s, not "
		    "running; try `docker %s %s`", place->target.name, status,
		    strcmp(status, "paused") == 0 ? "unpause" : "start",
		    place->target.name);
		return -1;
	}
	return 0;
}

static int
resolve(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd;
	struct argv argv;
	int rc = -1;

	if (transport_agent_user(place, error) < 0 ||
	    transport_program(place, PROGRAM, CURE, error) < 0) {
		return -1;
	}
	cmd = calloc(1, sizeof(*cmd));
	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "docker inspect");
		return -1;
	}
	argv_init(&argv);
	argv_add(&argv, PROGRAM);
	argv_add(&argv, "inspect");
	argv_add(&argv, "--type=container");
	/* An empty HOME counts for as little as none, to runc. */
	argv_add(&argv, "--format={{.Id}}{{\"\\n\"}}{{.State.Status}}"
	    "{{\"\\n\"}}{{.Image}}{{\"\\n\"}}{{.Config.User}}{{\"\\n\"}}"
	    "{{range .Config.Env}}{{if ne . \"HOME=\"}}{{if eq \"HOME\" "
	    "(index (split . \"=\") 0)}}H{{end}}{{end}}{{end}}{{\"\\n\"}}"
	    "{{.Config.WorkingDir}}");
	argv_add(&argv, place->target.name);
	if (run(place, cmd, &argv, deadline, error) == 0) {
		if (cmd->status != 0) {
			refused(place, cmd, error);
		} else {
			rc = parse(place, cmd->out, error);
		}
	}
	free(cmd);
	return rc;
}

/* The image's architecture; unknown is taken as the host's. */
static void
look_up_arch(struct transport_place *place, struct runcmd *cmd,
    const char *image, uint64_t deadline)
{
	struct argv argv;
	struct error ignored;
	char *text = cmd->out;

	argv_init(&argv);
	argv_add(&argv, PROGRAM);
	argv_add(&argv, "image");
	argv_add(&argv, "inspect");
	argv_add(&argv, "--format={{.Architecture}}");
	argv_add(&argv, image);
	if (run(place, cmd, &argv, deadline, &ignored) < 0 ||
	    cmd->status != 0 || !line(&text, place->facts.arch,
	    sizeof(place->facts.arch))) {
		place->facts.arch[0] = '\0';
	}
}

static void
octal(uint8_t *field, size_t len, size_t value)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%0*zo", (int)len - 1, value);
	memcpy(field, digits, len);
}

/* A tar of one file, root's; malloc, NULL+errno. */
static uint8_t *
make_tar(const char *name, unsigned mode, const struct embed *embed,
    size_t *len)
{
	size_t body = (embed->len + TAR_BLOCK - 1) & ~(size_t)(TAR_BLOCK - 1);
	uint8_t *tar = calloc(1, TAR_BLOCK + body + 2 * TAR_BLOCK);
	unsigned sum = 0, i;

	if (tar == NULL) {
		return NULL;
	}
	snprintf((char *)tar, 100, "%s", name);
	octal(tar + 100, 8, mode);
	octal(tar + 108, 8, 0);
	octal(tar + 116, 8, 0);
	octal(tar + 124, 12, embed->len);
	octal(tar + 136, 12, 0);
	memset(tar + 148, ' ', 8);
	tar[156] = '0';
	memcpy(tar + 257, "ustar\00000", 8);
	for (i = 0; i < TAR_BLOCK; i++) {
		sum += tar[i];
	}
	octal(tar + 148, 7, sum);
	memcpy(tar + TAR_BLOCK, embed->data, embed->len);
	*len = TAR_BLOCK + body + 2 * TAR_BLOCK;
	return tar;
}

/* `docker cp` failed: a read-only root is a cause with a cure of its own. */
static void
not_copied(const struct transport_place *place, const struct runcmd *cmd,
    struct error *error)
{
	const char *cure = strcasestr(cmd->err, "read-only") != NULL ?
	    "its root is read-only: bake the agent into the image as "
	    TRANSPORT_BAKED " (images/Dockerfile) or mount it there" :
	    "bake the agent into the image as " TRANSPORT_BAKED
	    " (images/Dockerfile)";

	error_set(error, WIRE_STEP_START, 0, "docker:%s: the agent is not in "
	    "the image and cannot be copied in; %s", place->target.name,
	    cure);
	runcmd_blame(cmd, error);
}

static int
copy(struct transport_place *place, struct runcmd *cmd, const char *path,
    unsigned mode, const struct embed *embed, uint64_t deadline,
    struct error *error)
{
	struct argv argv;
	uint8_t *tar = make_tar(path + 1, mode, embed, &cmd->input_len);
	int rc = -1;

	argv_init(&argv);
	argv_add(&argv, PROGRAM);
	argv_add(&argv, "cp");
	argv_add(&argv, "-");
	argv_format(&argv, "%s:/", place->facts.id);
	cmd->input = tar;
	if (tar == NULL) {
		error_set(error, WIRE_STEP_START, errno, "docker cp");
	} else if (run(place, cmd, &argv, deadline, error) == 0) {
		rc = cmd->status == 0 ? 0 : -1;
		if (rc < 0) {
			not_copied(place, cmd, error);
		}
	}
	free(tar);
	return rc;
}

static int
inject(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd = calloc(1, sizeof(*cmd));
	struct embed embed;
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];
	int rc = -1;

	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "docker cp");
		return -1;
	}
	look_up_arch(place, cmd, place->facts.image, deadline);
	if (embed_find(place->facts.arch, &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "docker:%s: this program "
		    "has agents for %s only, and the image is for %s",
		    place->target.name, embed_list(), place->facts.arch);
	} else {
		seal_random(random, sizeof(random));
		seal_hex(random, sizeof(random), hex);
		snprintf(place->facts.agent, sizeof(place->facts.agent),
		    "/%s-%s", transport_agent_name(place), hex);
		strcpy(place->facts.hash, embed.hash);
		rc = copy(place, cmd, place->facts.agent, 0555, &embed,
		    deadline, error);
	}
	free(cmd);
	return rc;
}

static void
link_words(const struct transport_place *place, struct argv *argv)
{
	argv_add(argv, PROGRAM);
	argv_add(argv, "exec");
	argv_add(argv, "-i");
	if (!place->as_image) {
		argv_add(argv, "-u");
		argv_add(argv, "0");
	}
	if (place->sandbox != NULL) {
		transport_words(argv, place->sandbox->exec_args);
	}
	argv_add(argv, place->facts.id);
}

/* The file is root's, in `/`: the image's user could not remove it. */
static void
remove_words(const struct transport_place *place, struct argv *argv)
{
	argv_add(argv, PROGRAM);
	argv_add(argv, "exec");
	argv_add(argv, "-u");
	argv_add(argv, "0");
	argv_add(argv, place->facts.id);
}

/* ---- up, down, ls ----------------------------------------------------- */

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
	struct runcmd *cmd = calloc(1, sizeof(*cmd));

	argv_init(argv);
	argv_add(argv, PROGRAM);
	argv_add(argv, verb);
	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "docker %s", verb);
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
	if (run(place, cmd, argv, deadline, error) < 0) {
		return -1;
	}
	if (cmd->status != 0) {
		error_set(error, WIRE_STEP_START, 0, "`docker %s` failed",
		    argv->words[1]);
		runcmd_blame(cmd, error);
		return -1;
	}
	return 0;
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
	}
	free(cmd);
	return rc;
}

static void
create_words(const struct transport_place *place, const struct sandbox *s,
    struct argv *argv)
{
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
			error_set(error, WIRE_STEP_START, 0, "`docker create` "
			    "named no container");
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
	look_up_arch(place, cmd, s->image, deadline);
	snprintf(place->facts.id, sizeof(place->facts.id), "%s",
	    s->container);
	if (embed_find(place->facts.arch, &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "this program has "
		    "agents for %s only, and the image is for %s",
		    embed_list(), place->facts.arch);
	} else {
		rc = copy(place, cmd, s->agent, 0711, &embed, deadline,
		    error);
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
		if (run(place, cmd, &argv, deadline, &ignored) == 0) {
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
	if (rc == 0 && resolve(place, deadline, error) < 0) {
		if (strstr(error->text, "exited") != NULL) {
			ended(place, s, deadline, error);
		}
		rc = -1;
	}
	return rc;
}

static int
create(struct transport_place *place, struct sandbox *s, uint64_t deadline,
    struct error *error)
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

static int
remove_container(struct transport_place *place, uint64_t deadline,
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
	/* Some clients say so with status 0. */
	if (strcasestr(cmd->err, "no such container") != NULL) {
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

static int
list(struct transport_place *place,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
    uint64_t deadline, struct error *error)
{
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
	argv_add(&argv, "--format={{.Label \"" LABEL_NAME "\"}}\t{{.ID}}\t"
	    "{{.Label \"" LABEL_KEY "\"}}\t{{.State}}");
	rc = finish(place, cmd, &argv, deadline, error);
	for (at = cmd->out; rc == 0 && *at != '\0'; at = next) {
		end = at + strcspn(at, "\n");
		next = *end == '\0' ? end : end + 1;
		*end = '\0';
		one.name = field(&at);
		one.id = field(&at);
		one.key = field(&at);
		one.running = strcmp(field(&at), "running") == 0;
		found(ctx, &one);
	}
	free(cmd);
	return rc;
}

static const char *const no_keys[] = { "policy", NULL };
static const char *const no_create_args[] = {
	"--name", "--entrypoint", "--cidfile", "--help", "-i", "-t",
	"-d", "--detach", "--interactive", "--tty", NULL
};
static const char *const no_exec_args[] = {
	"--timeout", "--tty", "--interactive", "--detach", "--user",
	"--workdir", "--env-file", "--help", "-n", "-t", "-i", "-d", "-u",
	"-w", "-h", "-e", NULL
};
static const char *const selects[] = {
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY",
	"DOCKER_TLS", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "HOME", NULL
};

static const struct transport_life life = {
	.no_keys = no_keys,
	.no_create_args = no_create_args,
	.no_exec_args = no_exec_args,
	.select = selects,
	.create = create,
	.remove = remove_container,
	.list = list,
};

const struct transport transport_docker = {
	.scheme = "docker",
	.traits = TRANSPORT_SHARED_UID | TRANSPORT_BAKES | TRANSPORT_ROOT,
	.resolve = resolve,
	.inject = inject,
	.link = link_words,
	.remove = remove_words,
	.life = &life,
};
