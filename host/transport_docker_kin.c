/* SPDX-License-Identifier: MIT */
/*
 * transport_docker_kin.c - docker and podman: what tells one from the other.
 *
 * Podman took over Docker's command line but for what is here.
 */
#include "transport_docker.h"

#define TRAITS (TRANSPORT_SHARED_UID | TRANSPORT_BAKES | TRANSPORT_ROOT)

static const char *const no_keys[] = { "policy", NULL };

/* ---- docker ------------------------------------------------------------ */

#define DOCKER_CURE "install Docker's client (Debian: docker.io), or add " \
    "its directory to PATH"

static const struct transport_docker_kin docker = {
	.program = "docker",
	.cure = DOCKER_CURE,
	.away = "daemon",
	.revive = "the Docker daemon cannot be reached; is it running, and "
	    "is DOCKER_HOST right?",
	.home = TRANSPORT_DOCKER_HOME,
	.label = ".Label",
};

static const char *const docker_no_create[] = {
	"--name", "--entrypoint", "--cidfile", "--help", "-i", "-t",
	"-d", "--detach", "--interactive", "--tty", NULL
};
static const char *const docker_no_exec[] = {
	"--timeout", "--tty", "--interactive", "--detach", "--user",
	"--workdir", "--env-file", "--help", "-n", "-t", "-i", "-d", "-u",
	"-w", "-h", "-e", NULL
};
static const char *const docker_select[] = {
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY",
	"DOCKER_TLS", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "HOME", NULL
};

static const struct transport_life docker_life = {
	.no_keys = no_keys,
	.no_create_args = docker_no_create,
	.no_exec_args = docker_no_exec,
	.select = docker_select,
	.program = "docker",
	.cure = DOCKER_CURE,
	.builds = true,
	.create = transport_docker_create,
	.remove = transport_docker_destroy,
	.list = transport_docker_list,
};

const struct transport transport_docker = {
	.scheme = "docker",
	.traits = TRAITS,
	.resolve = transport_docker_resolve,
	.inject = transport_docker_inject,
	.look = transport_docker_look,
	.link = transport_docker_link,
	.remove = transport_docker_remove,
	.life = &docker_life,
	.kin = &docker,
};

/* ---- podman ------------------------------------------------------------ */

#define PODMAN_CURE "install podman (Debian: podman), or add its directory " \
    "to PATH"

static const struct transport_docker_kin podman = {
	.program = "podman",
	.cure = PODMAN_CURE,
	.away = "connect to Podman",
	.revive = "Podman's service cannot be reached; is it running, and is "
	    "CONTAINER_HOST right?",
	/*
	 * A running container's environment always has the HOME of its own
	 * user, which no other gets by exec; what sets it for all are the
	 * image and the options that it was made with.
	 */
	.home = "{{range .Config.CreateCommand}}{{$w := split . \"=\"}}"
	    "{{if eq \"HOME\" (index $w 0)}}H{{else if gt (len $w) 1}}"
	    "{{if and (eq \"HOME\" (index $w 1)) (or (eq \"--env\" (index $w "
	    "0)) (eq \"-e\" (index $w 0)))}}H{{end}}{{end}}{{end}}",
	.adds_home = true,
	.label = "index .Labels",
	/* Else what is copied becomes the container's user's. */
	.cp_option = "--archive=false",
	/* Else `rm -f` waits 10 s for a main process that knows no TERM. */
	.create_option = "--stop-timeout=0",
};

static const char *const podman_no_create[] = {
	"--name", "--entrypoint", "--cidfile", "--help", "-i", "-t",
	"--interactive", "--tty", "--replace", NULL
};
static const char *const podman_no_exec[] = {
	"--timeout", "--tty", "--interactive", "--detach", "--user",
	"--workdir", "--env-file", "--help", "--latest", "--cidfile", "-n",
	"-t", "-i", "-d", "-u", "-w", "-h", "-e", "-l", NULL
};
static const char *const podman_select[] = {
	"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY",
	"CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE",
	"CONTAINERS_STORAGE_CONF", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"XDG_RUNTIME_DIR", "HOME", NULL
};

static const struct transport_life podman_life = {
	.no_keys = no_keys,
	.no_create_args = podman_no_create,
	.no_exec_args = podman_no_exec,
	.select = podman_select,
	.program = "podman",
	.cure = PODMAN_CURE,
	.builds = true,
	.create = transport_docker_create,
	.remove = transport_docker_destroy,
	.list = transport_docker_list,
};

const struct transport transport_podman = {
	.scheme = "podman",
	.traits = TRAITS,
	.resolve = transport_docker_resolve,
	.inject = transport_docker_inject,
	.look = transport_docker_look,
	.link = transport_docker_link,
	.remove = transport_docker_remove,
	.life = &podman_life,
	.kin = &podman,
};
