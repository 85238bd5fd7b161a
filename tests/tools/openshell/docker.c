/* SPDX-License-Identifier: MIT */
/* docker.c - create, delete and list, by the docker client. */
#include "docker.h"

#include "policy.h"
#include "request.h"
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DOCKER_ARGS 2048
#define DOCKER_OUTPUT 4096
#define DOCKER_READY_MS 60000

struct args {
	const char *v[DOCKER_ARGS];
	int n;
};

void
docker_pack(struct wire_buf *b, const struct docker_create *cr)
{
	struct request rq;
	uint8_t *both;
	size_t labels;

	memset(&rq, 0, sizeof(rq));
	rq.name = cr->name;
	rq.workdir = cr->image;
	rq.env = cr->env;
	rq.nenv = cr->nenv;
	rq.argv = cr->argv;
	rq.argc = cr->argc;
	/* Both strings, each with its NUL. */
	labels = strlen(cr->labels) + 1;
	rq.input_len = labels + strlen(cr->policy) + 1;
	both = malloc(rq.input_len);
	if (both == NULL) {
		abort();
	}
	memcpy(both, cr->labels, labels);
	memcpy(both + labels, cr->policy, rq.input_len - labels);
	rq.input = both;
	request_pack(b, &rq);
	free(both);
}

int
docker_unpack(struct docker_create *cr, const uint8_t *p, size_t n)
{
	struct request rq;
	size_t used;

	if (request_unpack(&rq, p, n) == -1) {
		return -1;
	}
	cr->name = rq.name;
	cr->image = rq.workdir;
	cr->env = rq.env;
	cr->nenv = rq.nenv;
	cr->argv = rq.argv;
	cr->argc = rq.argc;
	if (rq.input_len == 0 || rq.input[rq.input_len - 1] != '\0') {
		return -1;
	}
	cr->labels = (const char *)rq.input;
	used = strlen(cr->labels) + 1;
	if (used >= rq.input_len) {
		return -1;
	}
	cr->policy = cr->labels + used;
	return 0;
}

static void
add(struct args *a, const char *s)
{
	if (a->n < DOCKER_ARGS - 1) {
		a->v[a->n++] = s;
		a->v[a->n] = NULL;
	}
}

/* Runs docker; its output, both kinds, in out.  The exit status or -1. */
static int
run_docker(const struct args *a, char out[DOCKER_OUTPUT])
{
	size_t len = 0;
	int p[2];
	int st;
	pid_t pid;

	if (pipe(p) == -1 || (pid = fork()) == -1) {
		return -1;
	}
	if (pid == 0) {
		(void)dup2(p[1], 1);
		(void)dup2(p[1], 2);
		(void)close(p[0]);
		(void)close(p[1]);
		(void)execvp("docker", (char *const *)a->v);
		(void)dprintf(2, "cannot run docker: %s", strerror(errno));
		_exit(127);
	}
	(void)close(p[1]);
	for (;;) {
		char sink[512];
		ssize_t r = read(p[0], sink, sizeof(sink));

		if (r <= 0) {
			break;
		}
		if (len + (size_t)r < DOCKER_OUTPUT) {
			memcpy(out + len, sink, (size_t)r);
			len += (size_t)r;
		}
	}
	(void)close(p[0]);
	while (len > 0 && isspace((unsigned char)out[len - 1])) {
		len--;
	}
	out[len] = '\0';
	if (waitpid(pid, &st, 0) != pid || !WIFEXITED(st)) {
		return -1;
	}
	return WEXITSTATUS(st);
}

static void
set_error(struct wire_buf *out, const char *code, const char *message)
{
	out->len = 0;
	wire_put_str(out, code);
	wire_put_str(out, message);
}

static void
random_hex(char *s, size_t n)
{
	unsigned char b[32];
	size_t i;

	(void)!getrandom(b, sizeof(b), 0);
	for (i = 0; i < n; i++) {
		s[i] = "0123456789abcdef"[b[i % sizeof(b)] >> 4];
	}
	s[n] = '\0';
}

static void
make_id(char id[40])
{
	char h[33];

	random_hex(h, 32);
	h[12] = '4';
	h[16] = '8';
	(void)snprintf(id, 40, "%.8s-%.4s-%.4s-%.4s-%.12s", h, h + 8, h + 12,
	    h + 16, h + 20);
}

/* A failure after the record was made: phase Error, until it is deleted. */
static int
enter_error(const char *name, const char *why, struct wire_buf *out)
{
	char path[STATE_PATH];
	char text[DOCKER_OUTPUT + 128];
	size_t n;
	FILE *f;

	state_link_dir(path, name);
	n = strlen(path);
	(void)snprintf(path + n, sizeof(path) - n, "/error");
	f = fopen(path, "we");
	if (f != NULL) {
		(void)fprintf(f, "%s\n", why);
		(void)fclose(f);
	}
	(void)snprintf(text, sizeof(text),
	    "sandbox entered error phase while provisioning: %s", why);
	set_error(out, "", text);
	return -1;
}

static int
wait_ready(const char *name, struct wire_buf *out)
{
	const struct timespec pause = { 0, 5000000 };
	char path[STATE_PATH];
	char why[512];
	int i;

	for (i = 0; i < DOCKER_READY_MS / 5; i++) {
		const char *phase = state_phase(name);

		if (strcmp(phase, "Ready") == 0) {
			return 0;
		}
		if (strcmp(phase, "Error") == 0) {
			break;
		}
		(void)nanosleep(&pause, NULL);
	}
	state_link_dir(path, name);
	(void)strncat(path, "/error", sizeof(path) - strlen(path) - 1);
	(void)snprintf(why, sizeof(why), "the supervisor did not start");
	{
		FILE *f = fopen(path, "re");

		if (f != NULL) {
			(void)!fgets(why, sizeof(why), f);
			(void)fclose(f);
			why[strcspn(why, "\n")] = '\0';
		}
	}
	return enter_error(name, why, out);
}

/* USER and WORKDIR of the image, each on a line. */
static int
inspect_image(const char *image, char out[DOCKER_OUTPUT], char **workdir)
{
	struct args a = { .n = 0 };
	char *nl;

	add(&a, "docker");
	add(&a, "image");
	add(&a, "inspect");
	add(&a, "--format");
	add(&a, "{{.Config.User}}\n{{.Config.WorkingDir}}|");
	add(&a, "--");
	add(&a, image);
	if (run_docker(&a, out) != 0) {
		return -1;
	}
	nl = strchr(out, '\n');
	if (nl == NULL) {
		return -1;
	}
	*nl = '\0';
	*workdir = nl + 1;
	(*workdir)[strcspn(*workdir, "|")] = '\0';
	if (**workdir == '\0') {
		*workdir = (char *)"/sandbox";
	}
	return 0;
}

/* STANDIN_DOCKER_ARGS: further flags, split at blanks. */
static void
add_extra(struct args *a)
{
	const char *env = getenv("STANDIN_DOCKER_ARGS");
	char *copy = strdup(env != NULL ? env : "");
	char *p = copy != NULL ? strtok(copy, " ") : NULL;

	for (; p != NULL; p = strtok(NULL, " ")) {
		add(a, p);
	}
}

static const char *
supervisor_path(void)
{
	static char path[STATE_PATH];
	const char *env = getenv("STANDIN_SUPERVISOR");
	ssize_t n;
	char *slash;

	if (env != NULL && *env != '\0') {
		return env;
	}
	n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL) {
		memcpy(slash + 1, "supervisor", 11);
	}
	return path;
}

static void
run_args(struct args *a, const struct docker_create *cr,
    const struct state_sandbox *sb)
{
	static const char *const fixed[] = {
		"docker", "run", "-d", "--network", "none", "--user", "0:0",
		"--workdir", "/", "--security-opt", "seccomp=unconfined",
		"--security-opt", "apparmor=unconfined", "--cap-drop", "ALL",
		"--cap-add", "SETUID", "--cap-add", "SETGID",
		"--cap-add", "SETPCAP", "--cap-add", "CHOWN",
		"--cap-add", "KILL", "--cap-add", "DAC_OVERRIDE",
		"--cap-add", "FOWNER",
		"--entrypoint", "/.standin/supervisor",
	};
	static char label[STATE_PATH + 32];
	static char mount[2][STATE_PATH * 2];
	static char policy[POLICY_MAX + 32];
	char link[STATE_PATH];
	size_t i;

	for (i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		add(a, fixed[i]);
	}
	add_extra(a);
	(void)snprintf(label, sizeof(label), "openshell.standin=%s",
	    state_dir());
	state_link_dir(link, sb->name);
	(void)snprintf(mount[0], sizeof(mount[0]), "%s:/.standin/link", link);
	(void)snprintf(mount[1], sizeof(mount[1]),
	    "%s:/.standin/supervisor:ro", supervisor_path());
	add(a, "--label");
	add(a, label);
	add(a, "-v");
	add(a, mount[0]);
	add(a, "-v");
	add(a, mount[1]);
	if (cr->policy[0] != '\0') {
		(void)snprintf(policy, sizeof(policy), "STANDIN_POLICY=%s",
		    cr->policy);
		add(a, "--env");
		add(a, policy);
	}
	add(a, "--name");
	add(a, sb->container);
	add(a, sb->image);
}

static int
start_container(const struct docker_create *cr, const struct state_sandbox *sb,
    struct wire_buf *out)
{
	char image[DOCKER_OUTPUT];
	char text[DOCKER_OUTPUT];
	char count[16];
	struct args a = { .n = 0 };
	char *workdir;
	uint32_t i;

	if (inspect_image(sb->image, image, &workdir) == -1) {
		return enter_error(sb->name, image, out);
	}
	run_args(&a, cr, sb);
	(void)snprintf(count, sizeof(count), "%u", cr->nenv);
	add(&a, image);
	add(&a, workdir);
	add(&a, count);
	for (i = 0; i < cr->nenv; i++) {
		add(&a, cr->env[i]);
	}
	for (i = 0; i < cr->argc; i++) {
		add(&a, cr->argv[i]);
	}
	if (run_docker(&a, text) != 0) {
		return enter_error(sb->name, text, out);
	}
	return wait_ready(sb->name, out);
}

int
docker_create(const struct docker_create *cr, struct wire_buf *out)
{
	struct state_sandbox sb;
	char text[256];
	char hex[9];
	const char *bad;

	memset(&sb, 0, sizeof(sb));
	random_hex(hex, 8);
	(void)snprintf(sb.name, sizeof(sb.name), "%s%s", cr->name,
	    cr->name[0] == '\0' ? hex : "");
	bad = state_check_name(sb.name);
	if (bad != NULL) {
		set_error(out, "InvalidArgument", bad);
		return -1;
	}
	make_id(sb.id);
	(void)snprintf(sb.container, sizeof(sb.container),
	    "openshell-standin-%s-%.32s", hex, sb.name);
	(void)snprintf(sb.image, sizeof(sb.image), "%s", cr->image);
	(void)snprintf(sb.labels, sizeof(sb.labels), "%s", cr->labels);
	sb.created = (int64_t)time(NULL);
	if (state_add(&sb) == -1) {
		(void)snprintf(text, sizeof(text), "sandbox '%s' already "
		    "exists\n\nhint: delete it first with: openshell sandbox "
		    "delete <name>\n      or use a different name", sb.name);
		set_error(out, errno == EEXIST ? "" : "Internal",
		    errno == EEXIST ? text : strerror(errno));
		return -1;
	}
	out->len = 0;
	wire_put_str(out, sb.name);
	return start_container(cr, &sb, out);
}

int
docker_delete(const char *name)
{
	struct args a = { .n = 0 };
	char text[DOCKER_OUTPUT];
	struct state_sandbox sb;

	if (state_load(&sb, name) == -1) {
		return -1;
	}
	add(&a, "docker");
	add(&a, "rm");
	add(&a, "-f");
	add(&a, sb.container);
	(void)run_docker(&a, text);
	state_remove(name);
	return 0;
}

void
docker_list(const char *name, struct wire_buf *out)
{
	char **names = state_names();
	char when[32];
	struct state_sandbox sb;
	size_t i;

	out->len = 0;
	for (i = 0; names != NULL && names[i] != NULL; i++) {
		if ((*name != '\0' && strcmp(name, names[i]) != 0) ||
		    state_load(&sb, names[i]) == -1) {
			continue;
		}
		(void)snprintf(when, sizeof(when), "%lld",
		    (long long)sb.created);
		wire_put_str(out, sb.name);
		wire_put_str(out, sb.id);
		wire_put_str(out, sb.image);
		wire_put_str(out, when);
		wire_put_str(out, state_phase(sb.name));
		wire_put_str(out, sb.labels);
	}
	state_free_names(names);
}
