/* SPDX-License-Identifier: MIT */
/* cage.c - identity, capabilities, Landlock and seccomp of a command. */
#include "cage.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy.h"

#if defined(__x86_64__)
#define CAGE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CAGE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the cage knows x86-64 and arm64 only"
#endif

/* Landlock ABI 2, as the real one asks for: no truncate, ioctl or scope. */
#define CAGE_FS_V2 0x3fffULL
#define CAGE_FS_V1 0x1fffULL
#define CAGE_FS_READ (LANDLOCK_ACCESS_FS_EXECUTE | \
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define CAGE_FS_FILE (LANDLOCK_ACCESS_FS_EXECUTE | \
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

static const char *const read_only[] = {
	"/usr", "/lib", "/proc", "/dev/urandom", "/app", "/etc", "/var/log",
};

static const char *const read_write[] = { "/tmp", "/dev/null" };

static const int denied[] = {
	SYS_memfd_create, SYS_ptrace, SYS_bpf, SYS_process_vm_readv,
	SYS_process_vm_writev, SYS_pidfd_open, SYS_pidfd_getfd,
	SYS_pidfd_send_signal, SYS_io_uring_setup, SYS_mount, SYS_fsopen,
	SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_move_mount, SYS_open_tree,
	SYS_setns, SYS_umount2, SYS_pivot_root, SYS_userfaultfd,
	SYS_perf_event_open,
};

static int
parse_id(const char *s, unsigned int *id)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (*s == '\0' || *end != '\0' || errno != 0 || v > 2147483647UL) {
		return -1;
	}
	*id = (unsigned int)v;
	return 0;
}

static const char *
resolve_group(struct cage *c, const char *group)
{
	struct group *gr;

	if (parse_id(group, &c->gid) == -1) {
		gr = getgrnam(group);
		if (gr == NULL) {
			return "OCI group was not found in /etc/group";
		}
		c->gid = gr->gr_gid;
	}
	return NULL;
}

static const char *
resolve_user(struct cage *c, const char *name, const char *group)
{
	struct passwd *pw;
	int n = CAGE_GROUPS;

	if (parse_id(name, &c->uid) == 0) {
		pw = getpwuid(c->uid);
		if (pw == NULL && group == NULL) {
			return "OCI USER uses a numeric UID without an "
			    "explicit group";
		}
	} else {
		pw = getpwnam(name);
		if (pw == NULL) {
			return "OCI USER name was not found in /etc/passwd";
		}
		c->uid = pw->pw_uid;
	}
	c->gid = pw != NULL ? pw->pw_gid : 0;
	if (group != NULL) {
		return resolve_group(c, group);
	}
	if (getgrouplist(name, c->gid, c->groups, &n) >= 0) {
		c->ngroups = (size_t)n;
	}
	return NULL;
}

static const char *
resolve_identity(struct cage *c, const char *user)
{
	char name[256];
	char *colon;
	const char *why;

	if (*user == '\0') {
		return "OCI USER is required because run_as_user is omitted";
	}
	(void)strncpy(name, user, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	colon = strchr(name, ':');
	if (colon != NULL) {
		*colon++ = '\0';
	}
	why = resolve_user(c, name, colon);
	if (why == NULL && (c->uid == 0 || c->gid == 0)) {
		why = "OCI USER selects root";
	}
	return why;
}

/* A path that is not there is left out, as the real one does. */
static int
add_path(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr attr;
	struct stat st;
	int r;
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd == -1) {
		return 0;
	}
	memset(&attr, 0, sizeof(attr));
	attr.parent_fd = fd;
	attr.allowed_access = access;
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
		attr.allowed_access &= CAGE_FS_FILE;
	}
	r = (int)syscall(SYS_landlock_add_rule, ruleset,
	    LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
	(void)close(fd);
	return r;
}

/* The policy's paths, or the default ones. */
static int
add_list(int ruleset, const char *policy, const char *key,
    const char *const *defaults, size_t count, uint64_t access)
{
	static struct policy_list list;
	int given = policy_list(policy, key, &list);
	size_t i;

	for (i = 0; i < (given ? list.count : count); i++) {
		if (add_path(ruleset, given ? list.paths[i] : defaults[i],
		    access) == -1) {
			return -1;
		}
	}
	return 0;
}

static const char *
make_ruleset(struct cage *c, const char *policy)
{
	struct landlock_ruleset_attr attr;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_CREATE_RULESET_VERSION);

	c->ruleset = -1;
	if (abi < 1) {
		return NULL;	/* best effort, like the real one */
	}
	memset(&attr, 0, sizeof(attr));
	attr.handled_access_fs = abi >= 2 ? CAGE_FS_V2 : CAGE_FS_V1;
	c->ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
	    sizeof(attr), 0);
	if (c->ruleset == -1) {
		return "cannot create the Landlock ruleset";
	}
	if (add_list(c->ruleset, policy, "read_only", read_only,
	    sizeof(read_only) / sizeof(read_only[0]), CAGE_FS_READ) == -1 ||
	    add_list(c->ruleset, policy, "read_write", read_write,
	    sizeof(read_write) / sizeof(read_write[0]),
	    attr.handled_access_fs) == -1) {
		return "cannot add a Landlock rule";
	}
	if (policy_workdir(policy) && add_path(c->ruleset, c->workdir, attr.handled_access_fs) == -1) {
		return "cannot add a Landlock rule";
	}
	return NULL;
}

int
cage_prepare(struct cage *c, const char *user, const char *workdir,
    const char *policy, const char **why)
{
	memset(c, 0, sizeof(*c));
	c->ruleset = -1;
	c->workdir = workdir;
	*why = resolve_identity(c, user);
	if (*why != NULL) {
		return -1;
	}
	if (mkdir(workdir, 0755) == 0 && chown(workdir, c->uid, c->gid) != 0) {
		*why = "cannot own the workspace";
		return -1;
	}
	*why = make_ruleset(c, policy);
	return *why == NULL ? 0 : -1;
}

static int
drop_identity(const struct cage *c)
{
	struct rlimit core = { 0, 0 };
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct data[2];
	int cap;

	if (setrlimit(RLIMIT_CORE, &core) == -1 ||
	    setgroups(c->ngroups, c->groups) == -1 ||
	    setresgid(c->gid, c->gid, c->gid) == -1) {
		return -1;
	}
	for (cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1 &&
		    errno != EINVAL) {
			return -1;
		}
	}
	if (setresuid(c->uid, c->uid, c->uid) == -1) {
		return -1;
	}
	/* The inheritable set survives setresuid: docker 20.10 fills it. */
	memset(&head, 0, sizeof(head));
	memset(data, 0, sizeof(data));
	head.version = _LINUX_CAPABILITY_VERSION_3;
	if (syscall(SYS_capset, &head, data) == -1) {
		return -1;
	}
	if (setuid(0) == 0 || getuid() != c->uid || geteuid() != c->uid) {
		errno = EPERM;
		return -1;
	}
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* A filter under construction; 128 instructions are more than enough. */
struct program {
	struct sock_filter ins[128];
	unsigned short len;
};

static void
emit(struct program *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	struct sock_filter *f = &p->ins[p->len++];

	f->code = code;
	f->jt = jt;
	f->jf = jf;
	f->k = k;
}

static void
emit_load(struct program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void
emit_errno(struct program *p, int err)
{
	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (uint32_t)err);
}

static void
emit_start(struct program *p)
{
	p->len = 0;
	emit_load(p, offsetof(struct seccomp_data, arch));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, CAGE_ARCH);
	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	emit_load(p, offsetof(struct seccomp_data, nr));
}

static void
emit_deny(struct program *p, int nr, int err)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)nr);
	emit_errno(p, err);
}

/* EPERM for nr when argument arg passes the test (JEQ or JSET with k). */
static void
emit_deny_arg(struct program *p, int nr, int arg, uint16_t test, uint32_t k)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)nr);
	emit_load(p, offsetof(struct seccomp_data, args) +
	    (size_t)arg * sizeof(uint64_t));
	emit(p, (uint16_t)(BPF_JMP | test | BPF_K), 0, 1, k);
	emit_errno(p, EPERM);
	emit_load(p, offsetof(struct seccomp_data, nr));
}

/* Netlink is open for NETLINK_ROUTE only: getifaddrs needs it. */
static void
emit_netlink(struct program *p)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 6, SYS_socket);
	emit_load(p, offsetof(struct seccomp_data, args));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, AF_NETLINK);
	emit_load(p, offsetof(struct seccomp_data, args) +
	    2 * sizeof(uint64_t));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	emit_errno(p, EPERM);
	emit_load(p, offsetof(struct seccomp_data, nr));
}

static int
install(struct program *p)
{
	struct sock_fprog prog;

	emit(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	prog.len = p->len;
	prog.filter = p->ins;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

static int
enter_seccomp(void)
{
	static const int domains[] = { AF_PACKET, AF_BLUETOOTH, AF_VSOCK };
	struct program p;
	size_t i;

	/* clone3 first: the second filter forbids a third one. */
	emit_start(&p);
	emit_deny(&p, SYS_clone3, ENOSYS);
	if (install(&p) == -1) {
		return -1;
	}
	emit_start(&p);
	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
		emit_deny(&p, denied[i], EPERM);
	}
	for (i = 0; i < sizeof(domains) / sizeof(domains[0]); i++) {
		emit_deny_arg(&p, SYS_socket, 0, BPF_JEQ,
		    (uint32_t)domains[i]);
	}
	emit_netlink(&p);
	emit_deny_arg(&p, SYS_execveat, 4, BPF_JSET, AT_EMPTY_PATH);
	emit_deny_arg(&p, SYS_unshare, 0, BPF_JSET, CLONE_NEWUSER);
	emit_deny_arg(&p, SYS_clone, 0, BPF_JSET, CLONE_NEWUSER);
	emit_deny_arg(&p, SYS_seccomp, 0, BPF_JEQ, SECCOMP_SET_MODE_FILTER);
	return install(&p);
}

int
cage_enter(const struct cage *c)
{
	if (drop_identity(c) == -1) {
		return -1;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1) {
		return -1;
	}
	if (c->ruleset != -1 &&
	    syscall(SYS_landlock_restrict_self, c->ruleset, 0) == -1) {
		return -1;
	}
	return enter_seccomp();
}
