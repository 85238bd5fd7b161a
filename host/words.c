/* SPDX-License-Identifier: MIT */
/* words.c - tables of steps and errnos, and the lines made of them. */
#include "words.h"

#include <stdio.h>
#include <string.h>

#include "quote.h"

struct pair {
	const char *name, *text;
};

/* Linux's numbers (asm-generic: x86, arm, riscv), whatever the host's are. */
static const struct pair errnos[] = {
	[1] = { "EPERM", "operation not permitted" },
	[2] = { "ENOENT", "no such file or directory" },
	[3] = { "ESRCH", "no such process" },
	[4] = { "EINTR", "interrupted system call" },
	[5] = { "EIO", "input/output error" },
	[6] = { "ENXIO", "no such device or address" },
	[7] = { "E2BIG", "argument list too long" },
	[8] = { "ENOEXEC", "exec format error" },
	[9] = { "EBADF", "bad file descriptor" },
	[10] = { "ECHILD", "no child processes" },
	[11] = { "EAGAIN", "resource temporarily unavailable" },
	[12] = { "ENOMEM", "cannot allocate memory" },
	[13] = { "EACCES", "permission denied" },
	[14] = { "EFAULT", "bad address" },
	[15] = { "ENOTBLK", "block device required" },
	[16] = { "EBUSY", "device or resource busy" },
	[17] = { "EEXIST", "file exists" },
	[18] = { "EXDEV", "invalid cross-device link" },
	[19] = { "ENODEV", "no such device" },
	[20] = { "ENOTDIR", "not a directory" },
	[21] = { "EISDIR", "is a directory" },
	[22] = { "EINVAL", "invalid argument" },
	[23] = { "ENFILE", "too many open files in system" },
	[24] = { "EMFILE", "too many open files" },
	[25] = { "ENOTTY", "inappropriate ioctl for device" },
	[26] = { "ETXTBSY", "text file busy" },
	[27] = { "EFBIG", "file too large" },
	[28] = { "ENOSPC", "no space left on device" },
	[29] = { "ESPIPE", "illegal seek" },
	[30] = { "EROFS", "read-only file system" },
	[31] = { "EMLINK", "too many links" },
	[32] = { "EPIPE", "broken pipe" },
	[33] = { "EDOM", "numerical argument out of domain" },
	[34] = { "ERANGE", "numerical result out of range" },
	[35] = { "EDEADLK", "resource deadlock avoided" },
	[36] = { "ENAMETOOLONG", "file name too long" },
	[37] = { "ENOLCK", "no locks available" },
	[38] = { "ENOSYS", "function not implemented" },
	[39] = { "ENOTEMPTY", "directory not empty" },
	[40] = { "ELOOP", "too many levels of symbolic links" },
	[42] = { "ENOMSG", "no message of desired type" },
	[43] = { "EIDRM", "identifier removed" },
	[44] = { "ECHRNG", "channel number out of range" },
	[45] = { "EL2NSYNC", "level 2 not synchronized" },
	[46] = { "EL3HLT", "level 3 halted" },
	[47] = { "EL3RST", "level 3 reset" },
	[48] = { "ELNRNG", "link number out of range" },
	[49] = { "EUNATCH", "protocol driver not attached" },
	[50] = { "ENOCSI", "no CSI structure available" },
	[51] = { "EL2HLT", "level 2 halted" },
	[52] = { "EBADE", "invalid exchange" },
	[53] = { "EBADR", "invalid request descriptor" },
	[54] = { "EXFULL", "exchange full" },
	[55] = { "ENOANO", "no anode" },
	[56] = { "EBADRQC", "invalid request code" },
	[57] = { "EBADSLT", "invalid slot" },
	[59] = { "EBFONT", "bad font file format" },
	[60] = { "ENOSTR", "device not a stream" },
	[61] = { "ENODATA", "no data available" },
	[62] = { "ETIME", "timer expired" },
	[63] = { "ENOSR", "out of streams resources" },
	[64] = { "ENONET", "machine is not on the network" },
	[65] = { "ENOPKG", "package not installed" },
	[66] = { "EREMOTE", "object is remote" },
	[67] = { "ENOLINK", "link has been severed" },
	[68] = { "EADV", "advertise error" },
	[69] = { "ESRMNT", "srmount error" },
	[70] = { "ECOMM", "communication error on send" },
	[71] = { "EPROTO", "protocol error" },
	[72] = { "EMULTIHOP", "multihop attempted" },
	[73] = { "EDOTDOT", "RFS specific error" },
	[74] = { "EBADMSG", "bad message" },
	[75] = { "EOVERFLOW", "value too large for defined data type" },
	[76] = { "ENOTUNIQ", "name not unique on network" },
	[77] = { "EBADFD", "file descriptor in bad state" },
	[78] = { "EREMCHG", "remote address changed" },
	[79] = { "ELIBACC", "can not access a needed shared library" },
	[80] = { "ELIBBAD", "accessing a corrupted shared library" },
	[81] = { "ELIBSCN", "corrupted library section" },
	[82] = { "ELIBMAX", "attempting to link in too many shared libraries" },
	[83] = { "ELIBEXEC", "cannot exec a shared library directly" },
	[84] = { "EILSEQ", "invalid or incomplete multibyte or wide character" },
	[85] = { "ERESTART", "interrupted system call should be restarted" },
	[86] = { "ESTRPIPE", "streams pipe error" },
	[87] = { "EUSERS", "too many users" },
	[88] = { "ENOTSOCK", "socket operation on non-socket" },
	[89] = { "EDESTADDRREQ", "destination address required" },
	[90] = { "EMSGSIZE", "message too long" },
	[91] = { "EPROTOTYPE", "protocol wrong type for socket" },
	[92] = { "ENOPROTOOPT", "protocol not available" },
	[93] = { "EPROTONOSUPPORT", "protocol not supported" },
	[94] = { "ESOCKTNOSUPPORT", "socket type not supported" },
	[95] = { "EOPNOTSUPP", "operation not supported" },
	[96] = { "EPFNOSUPPORT", "protocol family not supported" },
	[97] = { "EAFNOSUPPORT", "address family not supported by protocol" },
	[98] = { "EADDRINUSE", "address already in use" },
	[99] = { "EADDRNOTAVAIL", "cannot assign requested address" },
	[100] = { "ENETDOWN", "network is down" },
	[101] = { "ENETUNREACH", "network is unreachable" },
	[102] = { "ENETRESET", "network dropped connection on reset" },
	[103] = { "ECONNABORTED", "software caused connection abort" },
	[104] = { "ECONNRESET", "connection reset by peer" },
	[105] = { "ENOBUFS", "no buffer space available" },
	[106] = { "EISCONN", "transport endpoint is already connected" },
	[107] = { "ENOTCONN", "transport endpoint is not connected" },
	[108] = { "ESHUTDOWN", "cannot send after transport endpoint shutdown" },
	[109] = { "ETOOMANYREFS", "too many references: cannot splice" },
	[110] = { "ETIMEDOUT", "connection timed out" },
	[111] = { "ECONNREFUSED", "connection refused" },
	[112] = { "EHOSTDOWN", "host is down" },
	[113] = { "EHOSTUNREACH", "no route to host" },
	[114] = { "EALREADY", "operation already in progress" },
	[115] = { "EINPROGRESS", "operation now in progress" },
	[116] = { "ESTALE", "stale file handle" },
	[117] = { "EUCLEAN", "structure needs cleaning" },
	[118] = { "ENOTNAM", "not a XENIX named type file" },
	[119] = { "ENAVAIL", "no XENIX semaphores available" },
	[120] = { "EISNAM", "is a named type file" },
	[121] = { "EREMOTEIO", "remote I/O error" },
	[122] = { "EDQUOT", "disk quota exceeded" },
	[123] = { "ENOMEDIUM", "no medium found" },
	[124] = { "EMEDIUMTYPE", "wrong medium type" },
	[125] = { "ECANCELED", "operation canceled" },
	[126] = { "ENOKEY", "required key not available" },
	[127] = { "EKEYEXPIRED", "key has expired" },
	[128] = { "EKEYREVOKED", "key has been revoked" },
	[129] = { "EKEYREJECTED", "key was rejected by service" },
	[130] = { "EOWNERDEAD", "owner died" },
	[131] = { "ENOTRECOVERABLE", "state not recoverable" },
	[132] = { "ERFKILL", "operation not possible due to RF-kill" },
	[133] = { "EHWPOISON", "memory page has hardware error" },
};

/*
 * How a step's line begins; "%s" is the thing.  Steps whose text is a whole
 * message of its own say only "%s" or put their words before it.
 */
static const struct {
	const char *name, *format;
} steps[] = {
	[WIRE_STEP_NONE] = { "none", "%s" },
	[WIRE_STEP_USAGE] = { "usage", "%s" },
	[WIRE_STEP_BUSY] = { "busy", "busy: %s" },
	[WIRE_STEP_FORK] = { "fork", "cannot start a process: %s" },
	[WIRE_STEP_PIPE] = { "pipe", "cannot make the command's pipes: %s" },
	[WIRE_STEP_STDIO] = { "stdio", "cannot set up the command's stdin, "
	    "stdout and stderr: %s" },
	[WIRE_STEP_CHDIR] = { "chdir", "cannot change to the directory %s" },
	[WIRE_STEP_EXEC] = { "exec", "cannot run %s" },
	[WIRE_STEP_OPEN] = { "open", "cannot open %s" },
	[WIRE_STEP_READ] = { "read", "cannot read %s" },
	[WIRE_STEP_WRITE] = { "write", "cannot write %s" },
	[WIRE_STEP_RENAME] = { "rename", "cannot put the file in place as "
	    "%s" },
	[WIRE_STEP_LINK] = { "link", "link lost, outcome unknown: %s" },
	[WIRE_STEP_START] = { "start", "cannot start: %s" },
	[WIRE_STEP_TARGET] = { "target", "target %s" },
	[WIRE_STEP_PROTOCOL] = { "protocol", "protocol broken: %s" },
	[WIRE_STEP_UNTRUSTED] = { "untrusted", "refused a new, unproven agent: "
	    "%s" },
	[WIRE_STEP_SHUTDOWN] = { "shutdown", "stopped by `sandmux stop`: %s" },
	[WIRE_STEP_WAIT] = { "wait", "the command's end could not be learned, "
	    "outcome unknown: %s" },
	[WIRE_STEP_USER] = { "user", "%s" },
	[WIRE_STEP_SWITCH] = { "switch", "user unsupported: %s" },
	[WIRE_STEP_LIMIT] = { "limit", "cannot set %s" },
	[WIRE_STEP_PTY] = { "pty", "cannot make a terminal: %s" },
	[WIRE_STEP_JOB] = { "job", "job %s" },
	[WIRE_STEP_STAT] = { "stat", "cannot look at %s" },
	[WIRE_STEP_LIST] = { "list", "cannot list %s" },
	[WIRE_STEP_MKDIR] = { "mkdir", "cannot make the directory %s" },
	[WIRE_STEP_REMOVE] = { "remove", "cannot remove %s" },
	[WIRE_STEP_MOVE] = { "rename", "cannot rename %s" },
	[WIRE_STEP_CHMOD] = { "chmod", "cannot change the mode of %s" },
	[WIRE_STEP_CHOWN] = { "chown", "cannot change the owner of %s" },
	[WIRE_STEP_SYMLINK] = { "symlink", "cannot make the link %s" },
	[WIRE_STEP_PARTIAL] = { "partial", "cannot go on with the partial "
	    "file %s" },
	[WIRE_STEP_VERIFY] = { "verify", "cannot verify %s" },
	[WIRE_STEP_AGENT] = { "agent", "agent gone, outcome unknown: %s" },
	[WIRE_STEP_SANDBOX] = { "sandbox", "sandbox gone, outcome unknown: "
	    "%s" },
	[WIRE_STEP_UNREACHABLE] = { "unreachable", "target unreachable, "
	    "outcome unknown: %s" },
	[WIRE_STEP_LINGER] = { "linger", "link lost for too long, outcome "
	    "unknown: %s" }
};

/* What to try, by step and errno (0: whatever it is). */
static const struct {
	uint8_t step;
	uint8_t number;
	const char *hint;
} hints[] = {
	{ WIRE_STEP_EXEC, 2, "is it installed, and in the target's PATH?" },
	{ WIRE_STEP_EXEC, 13, "is it a file with execute permission, on a "
	    "file system without noexec?" },
	{ WIRE_STEP_EXEC, 8, "is it for this architecture, is the "
	    "interpreter it needs there, has a script its #! line?" },
	{ WIRE_STEP_EXEC, 7, "pass less in arguments and environment, more "
	    "on stdin" },
	{ WIRE_STEP_CHDIR, 2, "-w takes a directory of the target" },
	{ WIRE_STEP_CHDIR, 20, "-w takes a directory of the target" },
	{ WIRE_STEP_FORK, 11, "the target's limit of processes is reached" },
	{ WIRE_STEP_BUSY, 0, "try again when other requests have ended" },
	{ WIRE_STEP_WRITE, 28, "free space there" },
	{ WIRE_STEP_WRITE, 122, "free space there, or raise the quota" },
	{ WIRE_STEP_LINK, 0, "what it did is not known; the next command "
	    "uses a new link" },
	{ WIRE_STEP_AGENT, 0, "what it did is not known; the next command "
	    "starts a new agent" },
	{ WIRE_STEP_SANDBOX, 0, "what it did is not known; treat the sandbox "
	    "as lost" },
	{ WIRE_STEP_UNREACHABLE, 0, "its jobs have been ended by now; is the "
	    "gateway, or the daemon, running?" },
	{ WIRE_STEP_LINGER, 0, "its jobs have been ended by now; `sandmux "
	    "serve --linger` sets how long they wait" },
	{ WIRE_STEP_SWITCH, 0, "leave -u out to run as the target's own user, "
	    "or give the container the capability" },
	{ WIRE_STEP_JOB, 3, "`sandmux ps` shows the jobs" },
	{ WIRE_STEP_PARTIAL, 11, "another copy is using it" },
	{ WIRE_STEP_PARTIAL, 1, "it is not a plain file of this user's alone; "
	    "remove it" },
	{ WIRE_STEP_VERIFY, 29, "it cannot be read back: leave --verify out" },
	{ WIRE_STEP_VERIFY, 74, "the two ends' bytes differ; copy it again" },
	{ WIRE_STEP_UNTRUSTED, 0, "treat the sandbox as lost, or leave out "
	    "--require-same-agent" }
};

static const char *const signals[] = {
	NULL, "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT",
	"SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2",
	"SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT",
	"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU",
	"SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR",
	"SIGSYS"
};

static const char *const capabilities[] = {
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID",
	"KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
	"IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE",
	"MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE"
};

static const char *const outcomes[] = {
	[WIRE_EXITED] = "exited",
	[WIRE_SIGNALED] = "signaled",
	[WIRE_TIMED_OUT] = "timed-out",
	[WIRE_CANCELLED] = "cancelled",
	[WIRE_FAILED] = "failed"
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *
words_step(unsigned step)
{
	return step < COUNT(steps) ? steps[step].name : "unknown";
}

const char *
words_errno(unsigned number)
{
	return number < COUNT(errnos) ? errnos[number].name : NULL;
}

const char *
words_errno_text(unsigned number)
{
	return number < COUNT(errnos) ? errnos[number].text : NULL;
}

const char *
words_outcome(unsigned outcome)
{
	return outcome < COUNT(outcomes) ? outcomes[outcome] : "unknown";
}

const char *
words_signal(unsigned number)
{
	return number < COUNT(signals) ? signals[number] : NULL;
}

const char *
words_capability(unsigned bit)
{
	return bit < COUNT(capabilities) ? capabilities[bit] : NULL;
}

static const char *
hint(unsigned step, unsigned number)
{
	size_t i;

	for (i = 0; i < COUNT(hints); i++) {
		if (hints[i].step == step && (hints[i].number == 0 ||
		    hints[i].number == number)) {
			return hints[i].hint;
		}
	}
	return NULL;
}

const char *
words_error(const struct error *error, char *out, size_t cap)
{
	unsigned step = (unsigned)error->step;
	unsigned number = (unsigned)error->number;
	const char *format = step < COUNT(steps) ? steps[step].format :
	    "failed in a step that this version does not know: %s";
	const char *at = strstr(format, "%s");
	const char *text = words_errno_text(number);
	const char *try = hint(step, number);
	char thing[WIRE_TEXT_MAX * 2];
	size_t used;

	quote_text(thing, sizeof(thing), error->text);
	used = quote_add(out, cap, 0, "%.*s%s%s", (int)(at - format), format,
	    thing, at + 2);
	if (number != 0 && text != NULL) {
		used = quote_add(out, cap, used, ": %s (%s)", text,
		    words_errno(number));
	} else if (number != 0) {
		used = quote_add(out, cap, used, ": error number %u", number);
	}
	if (try != NULL) {
		quote_add(out, cap, used, "; %s", try);
	}
	return out;
}

void
words_result(const struct wire_result *result, struct error *error)
{
	size_t len = result->text.len, i;

	if (len >= sizeof(error->text)) {
		len = sizeof(error->text) - 1;
	}
	error->step = (enum wire_step)result->step;
	error->number = result->error > 65535 ? 65535 : (int)result->error;
	for (i = 0; i < len; i++) {
		/* A NUL would hide the rest. */
		error->text[i] = result->text.at[i] == '\0' ? '\x01' :
		    (char)result->text.at[i];
	}
	error->text[len] = '\0';
}
