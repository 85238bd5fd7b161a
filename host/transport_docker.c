/* SPDX-License-Identifier: MIT */
/*
 * transport_docker.c - a container of Docker or Podman, through the program
 * of that name; transport_docker_kin.c has what tells them apart.
 *
 * The agent comes in by `docker cp` of a tar stream, so the image needs no
 * shell.  It runs as root where root can become other users; jobs are the
 * container's configured user's, as with `docker exec`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "transport_docker.h"

#define TAR_BLOCK 512u
#define STATUS_MAX 32

static const struct transport_docker_kin *
kin_of(const struct transport_place *place)
{
	return place->transport->kin;
}

/* An error about the target, which begins with its name. */
static void
blame(const struct transport_place *place, enum wire_step step,
    const char *text, struct error *error)
{
	error_set(error, step, 0, "%s:%s%s", kin_of(place)->program,
	    place->target.name, text);
}

void
transport_docker_start(const struct transport_place *place,
    struct argv *argv, const char *verb)
{
	argv_init(argv);
	argv_add(argv, kin_of(place)->program);
	argv_add(argv, verb);
}

static struct runcmd *
new_command(const struct transport_place *place, const char *verb,
    struct error *error)
{
	struct runcmd *cmd = calloc(1, sizeof(*cmd));

	if (cmd == NULL) {
		error_set(error, WIRE_STEP_START, errno, "%s %s",
		    kin_of(place)->program, verb);
	}
	return cmd;
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

/* Why inspect failed, from what it says. */
static void
refused(const struct transport_place *place, const struct runcmd *cmd,
    struct error *error)
{
	const struct transport_docker_kin *kin = kin_of(place);

	if (strcasestr(cmd->err, "no such container") != NULL) {
		error_set(error, WIRE_STEP_TARGET, 0, "%s:%s: there is no "
		    "such container; `%s ps -a` lists them", kin->program,
		    place->target.name, kin->program);
	} else if (strcasestr(cmd->err, kin->away) != NULL) {
		error_set(error, WIRE_STEP_START, 0, "%s", kin->revive);
		runcmd_blame(cmd, error);
	} else {
		blame(place, WIRE_STEP_START, ": inspect failed", error);
		runcmd_blame(cmd, error);
	}
}

static int
parse(struct transport_place *place, char *text, char status[STATUS_MAX],
    struct error *error)
{
	struct transport_facts *facts = &place->facts;
	const char *kin = kin_of(place)->program;
	char home[32];
	size_t len;

	if (!line(&text, facts->id, sizeof(facts->id)) ||
	    facts->id[0] == '\0' ||
	    facts->id[strspn(facts->id, "0123456789abcdef")] != '\0' ||
	    !line(&text, status, STATUS_MAX) ||
	    !line(&text, facts->image, sizeof(facts->image)) ||
	    !line(&text, facts->user, sizeof(facts->user)) ||
	    !line(&text, home, sizeof(home)) ||
	    !line(&text, facts->groups, sizeof(facts->groups))) {
		blame(place, WIRE_STEP_START, ": inspect said something that "
		    "cannot be read", error);
		return -1;
	}
	if (home[0] == 'H') {
		facts->flags |= TRANSPORT_HOME_SET;
	}
	/* The rest, but for the line end that not every program adds. */
	len = strlen(text);
	len -= len > 0 && text[len - 1] == '\n';
	snprintf(facts->workdir, sizeof(facts->workdir), "%.*s", (int)len,
	    text);
	if (place->sandbox != NULL && place->sandbox->container != NULL &&
	    strcmp(place->sandbox->container, facts->id) != 0) {
		blame(place, WIRE_STEP_TARGET, " is another container than "
		    "the one that `sandmux up` made", error);
		return -1;
	}
	if (strcmp(status, "running") != 0) {
		error_set(error, WIRE_STEP_START, 0, "%s:%s is %s, not "
		    "running; try `%s %s %s`", kin, place->target.name,
		    status, kin, strcmp(status, "paused") == 0 ? "unpause" :
		    "start", place->target.name);
		return -1;
	}
	return 0;
}

/* Whether the image sets HOME, where its containers do not tell. */
static int
look_up_home(struct transport_place *place, struct runcmd *cmd,
    uint64_t deadline, struct error *error)
{
	struct argv argv;

	transport_docker_start(place, &argv, "image");
	argv_add(&argv, "inspect");
	argv_add(&argv, "--format=" TRANSPORT_DOCKER_HOME);
	argv_add(&argv, place->facts.image);
	if (transport_run(place, cmd, &argv, deadline, error) < 0) {
		return -1;
	}
	/* An image may be removed while a container of it runs. */
	if (cmd->status == 0 && cmd->out[0] == 'H') {
		place->facts.flags |= TRANSPORT_HOME_SET;
	}
	return 0;
}

/* What inspect says; status: the program's word for its state, or empty. */
static int
inspect(struct transport_place *place, uint64_t deadline,
    char status[STATUS_MAX], struct error *error)
{
	const struct transport_docker_kin *kin = kin_of(place);
	struct runcmd *cmd;
	struct argv argv;
	int rc = -1;

	status[0] = '\0';
	if (transport_agent_user(place, error) < 0 ||
	    transport_program(place, kin->program, kin->cure, error) < 0) {
		return -1;
	}
	cmd = new_command(place, "inspect", error);
	if (cmd == NULL) {
		return -1;
	}
	transport_docker_start(place, &argv, "inspect");
	argv_add(&argv, "--type=container");
	argv_format(&argv, "--format={{.Id}}{{\"\\n\"}}{{.State.Status}}"
	    "{{\"\\n\"}}{{.Image}}{{\"\\n\"}}{{.Config.User}}{{\"\\n\"}}"
	    "%s{{\"\\n\"}}{{range .HostConfig.GroupAdd}}{{.}}:{{end}}"
	    "{{\"\\n\"}}{{.Config.WorkingDir}}", kin->home);
	argv_add(&argv, place->target.name);
	if (transport_run(place, cmd, &argv, deadline, error) == 0) {
		if (cmd->status != 0) {
			refused(place, cmd, error);
		} else {
			rc = parse(place, cmd->out, status, error);
		}
		if (rc == 0 && kin->adds_home &&
		    (place->facts.flags & TRANSPORT_HOME_SET) == 0) {
			rc = look_up_home(place, cmd, deadline, error);
		}
	}
	free(cmd);
	return rc;
}

int
transport_docker_resolve(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	char status[STATUS_MAX];

	return inspect(place, deadline, status, error);
}

/* Its processes live as long as it runs or is paused under this id. */
int
transport_docker_look(struct transport_place *place, uint64_t deadline, struct error *error)
{
	char status[STATUS_MAX], id[TRANSPORT_ID_MAX];
	int rc;

	memcpy(id, place->facts.id, sizeof(id));
	rc = inspect(place, deadline, status, error);
	if (status[0] != '\0' && strcmp(id, place->facts.id) != 0) {
		blame(place, WIRE_STEP_SANDBOX, " is another container by "
		    "now", error);
		return -1;
	}
	if (rc < 0) {
		error->step = error->step == WIRE_STEP_TARGET ||
		    (status[0] != '\0' && strcmp(status, "paused") != 0) ?
		    WIRE_STEP_SANDBOX : WIRE_STEP_UNREACHABLE;
	}
	return rc;
}

/* The image's architecture; unknown is taken as the host's. */
void
transport_docker_look_up_arch(struct transport_place *place, struct runcmd *cmd,
    const char *image, uint64_t deadline)
{
	struct argv argv;
	struct error ignored;
	char *text = cmd->out;

	transport_docker_start(place, &argv, "image");
	argv_add(&argv, "inspect");
	argv_add(&argv, "--format={{.Architecture}}");
	argv_add(&argv, image);
	if (transport_run(place, cmd, &argv, deadline, &ignored) < 0 ||
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

/* cp failed: a read-only root is a cause with a cure of its own. */
static void
not_copied(const struct transport_place *place, const struct runcmd *cmd,
    struct error *error)
{
	const char *cure = strcasestr(cmd->err, "read-only") != NULL ?
	    "its root is read-only: " TRANSPORT_BAKE " or mount it there" :
	    TRANSPORT_BAKE;

	error_set(error, WIRE_STEP_START, 0, "%s:%s: the agent is not in "
	    "the image and cannot be copied in; %s",
	    kin_of(place)->program, place->target.name, cure);
	runcmd_blame(cmd, error);
}

int
transport_docker_copy(struct transport_place *place, struct runcmd *cmd,
    const char *path, unsigned mode, const struct embed *embed,
    uint64_t deadline, struct error *error)
{
	struct argv argv;
	uint8_t *tar = make_tar(path + 1, mode, embed, &cmd->input_len);
	int rc = -1;

	transport_docker_start(place, &argv, "cp");
	if (kin_of(place)->cp_option != NULL) {
		argv_add(&argv, kin_of(place)->cp_option);
	}
	argv_add(&argv, "-");
	argv_format(&argv, "%s:/", place->facts.id);
	cmd->input = tar;
	if (tar == NULL) {
		error_set(error, WIRE_STEP_START, errno, "an agent's tar");
	} else if (transport_run(place, cmd, &argv, deadline, error) == 0) {
		rc = cmd->status == 0 ? 0 : -1;
		if (rc < 0) {
			not_copied(place, cmd, error);
		}
	}
	free(tar);
	return rc;
}

/* ---- removal ------------------------------------------------------------ */

/* What a removal has to work with. */
struct removal {
	struct transport_place *place;
	struct runcmd *cmd;
	uint64_t deadline;
};

/* Two or three words, as root: the file is root's and in `/`. */
static void
run_there(struct removal *r, const char *a, const char *b, const char *c)
{
	struct argv argv;
	struct error ignored;

	transport_docker_start(r->place, &argv, "exec");
	argv_add(&argv, "-u");
	argv_add(&argv, "0");
	argv_add(&argv, r->place->facts.id);
	argv_add(&argv, a);
	argv_add(&argv, b);
	if (c != NULL) {
		argv_add(&argv, c);
	}
	r->cmd->input = NULL;
	transport_run(r->place, r->cmd, &argv, r->deadline, &ignored);
}

static void
by_itself(struct removal *r)
{
	run_there(r, r->place->facts.agent, "remove", NULL);
}

/* What is damaged is not run: a whole one takes its place first. */
static void
by_a_whole_one(struct removal *r)
{
	struct error ignored;
	struct embed embed;

	if (embed_find(r->place->facts.arch, &embed) == 0 &&
	    transport_docker_copy(r->place, r->cmd, r->place->facts.agent,
	    0555, &embed, r->deadline, &ignored) == 0) {
		by_itself(r);
	}
}

static void
by_the_image(struct removal *r)
{
	run_there(r, "rm", "-f", r->place->facts.agent);
}

/* Seen without the image's help, and only where the program says so. */
static bool
is_gone(struct removal *r)
{
	struct argv argv;
	struct error ignored;

	transport_docker_start(r->place, &argv, "cp");
	argv_format(&argv, "%s:%s", r->place->facts.id,
	    r->place->facts.agent);
	argv_add(&argv, "-");
	r->cmd->input = NULL;
	return transport_run(r->place, r->cmd, &argv, r->deadline,
	    &ignored) == 0 && r->cmd->status != 0 &&
	    (strcasestr(r->cmd->err, "no such") != NULL ||
	    strcasestr(r->cmd->err, "could not find") != NULL);
}

static void (*const ways[])(struct removal *r) = {
	by_itself, by_a_whole_one, by_the_image,
};

/* From ways[first] on, until it is not there: 0, or -1 with *error. */
static int
clear(struct removal *r, size_t first, struct error *error)
{
	size_t i;

	for (i = first; i < sizeof(ways) / sizeof(ways[0]); i++) {
		ways[i](r);
		if (is_gone(r)) {
			return 0;
		}
	}
	error_set(error, WIRE_STEP_START, 0, "%s:%s: the agent's file %s "
	    "cannot be removed there", kin_of(r->place)->program,
	    r->place->target.name, r->place->facts.agent);
	if (r->cmd->status != 0) {
		runcmd_blame(r->cmd, error);
	}
	return -1;
}

int
transport_docker_remove(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct removal r = { place, new_command(place, "exec", error),
	    deadline };
	int rc;

	if (r.cmd == NULL) {
		return -1;
	}
	rc = clear(&r, 0, error);
	free(r.cmd);
	return rc;
}

/* Whatever has arrived of the file must not stay, or *error names it. */
static void
take_back(struct transport_place *place, struct runcmd *cmd,
    struct error *error)
{
	struct removal r = { place, cmd,
	    clock_now() + TRANSPORT_CLEAN_MS * (uint64_t)CLOCK_MS };
	size_t used = strlen(error->text);
	struct error stays;

	if (is_gone(&r) || clear(&r, 1, &stays) == 0) {
		place->facts.agent[0] = '\0';
		return;
	}
	snprintf(error->text + used, sizeof(error->text) - used, "; and "
	    "%.400s", stays.text);
}

/* ---- injection ---------------------------------------------------------- */

int
transport_docker_inject(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct runcmd *cmd = new_command(place, "cp", error);
	struct embed embed;
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];
	int rc = -1;

	if (cmd == NULL) {
		return -1;
	}
	transport_docker_look_up_arch(place, cmd, place->facts.image, deadline);
	if (embed_find(place->facts.arch, &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "%s:%s: this program "
		    "has agents for %s only, and the image is for %s",
		    kin_of(place)->program, place->target.name, embed_list(),
		    place->facts.arch);
	} else {
		seal_random(random, sizeof(random));
		seal_hex(random, sizeof(random), hex);
		if (place->facts.agent[0] == '\0') {
			snprintf(place->facts.agent,
			    sizeof(place->facts.agent), "/%s-%s",
			    transport_agent_name(place), hex);
		}
		strcpy(place->facts.hash, embed.hash);
		rc = transport_docker_copy(place, cmd, place->facts.agent,
		    0555, &embed, deadline, error);
		if (rc < 0) {
			take_back(place, cmd, error);
		}
	}
	free(cmd);
	return rc;
}

void
transport_docker_link(const struct transport_place *place, struct argv *argv)
{
	argv_add(argv, kin_of(place)->program);
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

