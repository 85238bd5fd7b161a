/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the one table of the protocol: version, limits, messages, fields.
 *
 * Everything that two sandmux programs say to each other is a message of
 * this file; PROTOCOL.md is its normative description.  The tables in wire.c
 * drive one encoder and one decoder, so a field exists in exactly one place.
 * Numbers are big-endian.  Nothing here allocates, blocks or keeps state.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Versions this program speaks; the highest common one is used. */
#ifndef WIRE_VERSION_MIN
#define WIRE_VERSION_MIN 1
#endif
#ifndef WIRE_VERSION_MAX
#define WIRE_VERSION_MAX 1
#endif

/* Limits of the format, in bytes unless said otherwise. */
#define WIRE_NUMBER 8			/* frame number before each frame */
#define WIRE_RECORD_PLAIN 32747		/* number + frame; sealed: 32 KiB */
#define WIRE_FRAME_MAX (WIRE_RECORD_PLAIN - WIRE_NUMBER)
#define WIRE_DATA_HEADER 14		/* type, request, channel, offset */
#define WIRE_DATA_MAX (WIRE_FRAME_MAX - WIRE_DATA_HEADER)
#define WIRE_TEXT_MAX 1024		/* an error's or log line's text */
#define WIRE_KEEP_MAX 16777216u		/* kept of a detached job's stream */
#define WIRE_INFO_MAX 16384		/* what a RESULT carries beside it */
#define WIRE_PATH_MAX 4096		/* a path or a directory */
#define WIRE_ITEMS_MAX 32768		/* items in one list */
#define WIRE_ARGS_MAX 1048576		/* arguments + environment */
#define WIRE_BODY_MAX (WIRE_ARGS_MAX + 524288)
#define WIRE_READY_BYTES 64		/* READY is padded to this */
#define WIRE_USER_MAX 256		/* NAME|UID[:GROUP|GID] */
#define WIRE_COMMAND_MAX 256		/* what JOB shows of a command line */
#define WIRE_NAME_MAX 255		/* one component of a path */
#define WIRE_CHUNK_MAX 65536		/* a piece of a file in a tree */
#define WIRE_LIMIT_BYTES 17		/* an item of exec.limits */
#define WIRE_LIMITS_MAX 16		/* items there */
#define WIRE_HASH 32			/* BLAKE2b-256 */
#define WIRE_EXTENT_BYTES 16		/* one of start.extents */
#define WIRE_EXTENTS_MAX 1024		/* of them */

/*
 * A request's byte flows.  The opener sends BODY and IN, the server sends OUT
 * and ERR.
 */
enum wire_channel {
	WIRE_CH_BODY = 0,		/* the request itself */
	WIRE_CH_IN = 1,			/* stdin, or a file's bytes */
	WIRE_CH_OUT = 2,		/* stdout, or a file's bytes */
	WIRE_CH_ERR = 3			/* stderr */
};

enum wire_type {
	/* link frames: never numbered, stored or queued; the latest counts */
	WIRE_READY = 1,
	WIRE_RESUME = 2,
	WIRE_ACK = 3,
	WIRE_PING = 4,
	WIRE_PONG = 5,
	WIRE_CLOSE = 6,
	WIRE_TERMINAL = 7,
	/* session frames: numbered, kept until acknowledged */
	WIRE_OPEN = 16,
	WIRE_DATA = 17,
	WIRE_CREDIT = 18,
	WIRE_EOF = 19,
	WIRE_SIGNAL = 20,
	WIRE_RESIZE = 21,
	WIRE_RESULT = 22,
	WIRE_CANCEL = 23,
	WIRE_LOG = 24,
	/* client socket only: its first two messages; their form is frozen */
	WIRE_HELLO = 32,
	WIRE_WELCOME = 33,
	/* and from one controller to its successor */
	WIRE_HANDOVER = 34,
	WIRE_LIVE = 35,
	/* bodies (on channel BODY) and infos (in RESULT) */
	WIRE_EXEC = 64,
	WIRE_PUT = 65,
	WIRE_GET = 66,
	WIRE_PROBE = 67,
	WIRE_ECHO = 68,
	WIRE_JOBS = 69,
	WIRE_KILL = 70,
	WIRE_ATTACH = 71,
	WIRE_TREE_PUT = 76,
	WIRE_TREE_GET = 77,
	WIRE_FS = 72,
	WIRE_STATUS = 80,
	WIRE_STOP = 81,
	WIRE_LINKINFO = 82,
	WIRE_PROBE_INFO = 96,
	WIRE_FILE_INFO = 97,
	WIRE_EXEC_INFO = 98,
	WIRE_JOB = 99,
	WIRE_TREE_INFO = 104,
	/* a tree's stream, on IN of TREE_PUT or OUT of TREE_GET */
	WIRE_ENTRY = 112,
	WIRE_CHUNK = 113,
	WIRE_ENTRY_END = 114,
	WIRE_SKIPPED = 115,
	WIRE_HOLE = 116,
	/* inside a file's flows, each as f(message) before its bytes */
	WIRE_START = 100,
	WIRE_PARTIAL = 101
};

/* Borrowed bytes: valid as long as what they were decoded from. */
struct wire_bytes {
	const uint8_t *at;
	uint32_t len;
};

/* A list: count items, each a 4-byte length and its bytes. */
struct wire_list {
	uint32_t count;
	struct wire_bytes raw;
};

/* RESULT.outcome: how a request ended. */
enum wire_outcome {
	WIRE_EXITED = 0,		/* code = exit status (0 for files) */
	WIRE_SIGNALED = 1,		/* code = signal number */
	WIRE_TIMED_OUT = 2,		/* its own timeout passed */
	WIRE_CANCELLED = 3,		/* the opener cancelled it */
	WIRE_FAILED = 4			/* step, error and text say why */
};

/* The step that failed (RESULT.step); words.c has the words. */
enum wire_step {
	WIRE_STEP_NONE = 0,
	WIRE_STEP_USAGE = 1,		/* the request itself is wrong */
	WIRE_STEP_BUSY = 2,		/* a limit is reached; try later */
	WIRE_STEP_FORK = 3,
	WIRE_STEP_PIPE = 4,
	WIRE_STEP_STDIO = 5,
	WIRE_STEP_CHDIR = 6,
	WIRE_STEP_EXEC = 7,
	WIRE_STEP_OPEN = 8,
	WIRE_STEP_READ = 9,
	WIRE_STEP_WRITE = 10,
	WIRE_STEP_RENAME = 11,
	WIRE_STEP_LINK = 12,		/* link lost: outcome unknown */
	WIRE_STEP_START = 13,		/* no link could be started */
	WIRE_STEP_TARGET = 14,		/* unknown target */
	WIRE_STEP_PROTOCOL = 15,	/* the peer broke the protocol */
	WIRE_STEP_UNTRUSTED = 16,	/* a new agent, a strict caller */
	WIRE_STEP_SHUTDOWN = 17,	/* stopped by `sandmux stop` */
	WIRE_STEP_WAIT = 18,		/* the child's end is not known */
	WIRE_STEP_USER = 19,		/* no such user, or unreadable */
	WIRE_STEP_SWITCH = 20,		/* user unsupported: no privilege */
	WIRE_STEP_LIMIT = 21,		/* a limit, nice or umask */
	WIRE_STEP_PTY = 22,		/* a terminal */
	WIRE_STEP_JOB = 23,		/* no such job, or not in that state */
	WIRE_STEP_STAT = 24,
	WIRE_STEP_LIST = 25,
	WIRE_STEP_MKDIR = 26,
	WIRE_STEP_REMOVE = 27,
	WIRE_STEP_MOVE = 28,
	WIRE_STEP_CHMOD = 29,
	WIRE_STEP_CHOWN = 30,
	WIRE_STEP_SYMLINK = 31,
	WIRE_STEP_PARTIAL = 32,		/* a kept partial file: in use, or of
					 * someone else */
	WIRE_STEP_VERIFY = 33,		/* EBADMSG: what can be read back is not
					 * what was sent; ESPIPE: it cannot be
					 * read back */
	/* As LINK: a lost link that did not heal, and why. */
	WIRE_STEP_AGENT = 34,		/* nobody there has the session */
	WIRE_STEP_SANDBOX = 35,		/* it is gone, or another by now */
	WIRE_STEP_UNREACHABLE = 36,	/* whoever leads to it */
	WIRE_STEP_LINGER = 37		/* the agent has waited long enough */
};

/* ---- messages ------------------------------------------------------- */

struct wire_ready {
	uint16_t version;		/* chosen by the agent */
	uint32_t link;			/* the link number it answers */
	uint32_t uid;
	uint8_t unlinked;		/* enum wire_unlinked */
	uint8_t switches;		/* it can run jobs as any user */
	uint8_t terminals;		/* it can open terminals */
	struct wire_bytes pad;		/* zeros */
};

#define WIRE_PARK_EVER UINT32_MAX	/* CLOSE.park_s: the sandbox's life */

/* READY.unlinked: what became of an injected agent's file. */
enum wire_unlinked {
	WIRE_UNLINK_NOT_ASKED = 0,
	WIRE_UNLINK_DONE = 1,
	WIRE_UNLINK_FAILED = 2
};

struct wire_resume {
	uint64_t next;			/* next frame number expected */
	uint32_t ping_ms;		/* host to agent: keepalive; else 0 */
	uint32_t dead_ms;
	uint32_t linger_ms;		/* host to agent: the core's wait for
					 * another link when it loses this */
};

struct wire_ack {
	uint64_t next;			/* all below are received and stored */
};

struct wire_ping {
	uint64_t id;
};

struct wire_pong {
	uint64_t id;			/* PING's */
	uint8_t busy;			/* agent: jobs or their children live */
};

struct wire_close {
	uint8_t session;		/* 1: the session ends, 0: the link */
	uint32_t park_s;		/* with 0: the wait for another */
};

struct wire_terminal {
	uint32_t error;			/* agent: 0, or why not (Linux errno) */
};

struct wire_open {
	uint32_t request;		/* strictly rising within a session */
	uint8_t kind;			/* enum wire_type of the body */
	uint32_t body;			/* bytes on channel BODY */
	uint64_t out;			/* first credit limit of OUT */
	uint64_t err;			/* first credit limit of ERR */
};

struct wire_data {
	uint32_t request;
	uint8_t channel;
	uint64_t offset;		/* of the first byte */
	struct wire_bytes bytes;	/* at least one */
};

struct wire_credit {
	uint32_t request;
	uint8_t channel;
	uint64_t limit;			/* offsets below it may be sent */
};
#define WIRE_UNWANTED UINT64_MAX	/* CREDIT.limit: nobody reads */

struct wire_eof {
	uint32_t request;
	uint8_t channel;
	uint64_t total;			/* the flow's length */
};

struct wire_signal {
	uint32_t request;
	uint8_t signal;			/* Linux number */
};

struct wire_resize {
	uint32_t request;
	uint16_t rows;
	uint16_t columns;
};

struct wire_result {
	uint32_t request;
	uint8_t outcome;		/* enum wire_outcome */
	int32_t code;
	uint8_t step;			/* enum wire_step, when FAILED */
	uint32_t error;			/* Linux errno or 0, when FAILED */
	uint64_t in;			/* bytes of IN taken */
	uint64_t out;			/* total of OUT */
	uint64_t err;			/* total of ERR */
	uint64_t wall_us;
	uint8_t new_agent;		/* set by the controller only */
	uint8_t detached;		/* children still held OUT or ERR */
	struct wire_bytes text;		/* names the thing that failed */
	struct wire_bytes info;		/* a *_INFO message or empty */
};

struct wire_cancel {
	uint32_t request;
};

struct wire_log {
	uint8_t level;			/* 0 error, 1 warning, 2 note */
	struct wire_bytes text;
};

struct wire_hello {
	uint16_t min, max;		/* versions of the socket's protocol */
	uint32_t flags;			/* enum wire_hello_flags */
	struct wire_bytes program;	/* program version, for people */
	struct wire_bytes target;	/* empty: the controller itself */
	struct wire_list env;		/* K=V that reach the transport */
};

enum wire_hello_flags {
	WIRE_HELLO_SAME_AGENT = 1,	/* refuse a new, unproven agent */
	WIRE_HELLO_STOP_IF_IDLE = 2,	/* a newer program takes over */
	WIRE_HELLO_HAND_OVER = 4	/* and wants the sessions too */
};

struct wire_welcome {
	uint16_t version;		/* 0: none in common */
	uint32_t pid;			/* of the controller */
	uint32_t busy;			/* requests under way */
	struct wire_bytes program;
};

struct wire_handover {
	uint32_t count;			/* of LIVE that follow, or were taken */
};

/* LIVE.flags */
enum wire_live_flags {
	WIRE_LIVE_NEW_AGENT = 1,	/* its results are marked so */
	WIRE_LIVE_INJECTED = 2,
	WIRE_LIVE_STAYS = 4,		/* an agent cannot remove its file */
	WIRE_LIVE_AS_IMAGE = 8,		/* the agent is the image's user */
	WIRE_LIVE_USED = 16,		/* the record on disk says so */
	WIRE_LIVE_LEFT = 32,		/* jobs go on there */
	WIRE_LIVE_PARKED = 64
};

/* A session in which no request is open and nothing unacknowledged. */
struct wire_live {
	uint32_t flags;			/* enum wire_live_flags */
	uint32_t number;		/* of its last link */
	uint32_t last;			/* id of its last request */
	uint64_t next;			/* frame numbers: ours, */
	uint64_t expected;		/* and the core's */
	uint32_t wait_s;		/* PARKED: so long; WIRE_PARK_EVER */
	struct wire_bytes session;	/* 32 hex digits */
	struct wire_bytes secret;	/* S */
	struct wire_bytes target;
	struct wire_bytes place;	/* the container's id */
	struct wire_list env;		/* as in HELLO */
};

/* ---- bodies and infos ----------------------------------------------- */

enum wire_exec_flags {
	WIRE_EXEC_STDIN = 1,		/* IN follows; else /dev/null */
	WIRE_EXEC_CLEAR_ENV = 2,
	WIRE_EXEC_TTY = 4,		/* stdio is a terminal of the job's */
	WIRE_EXEC_DETACH = 8,		/* RESULT once it runs; it is kept */
	WIRE_EXEC_KILL_BACKGROUND = 16,	/* its end is its descendants' too */
	WIRE_EXEC_UMASK = 32,		/* umask counts; else as the target's */
	WIRE_EXEC_SHELL = 64		/* no argv: the user's own shell */
};

struct wire_exec {
	uint32_t flags;
	uint64_t timeout_ms;		/* 0: none */
	uint32_t grace_ms;		/* TERM to KILL */
	uint16_t rows, columns;		/* TTY: its first size */
	uint32_t umask;
	int32_t nice;			/* added to the target's */
	uint32_t keep;			/* DETACH: bytes kept of each stream */
	uint32_t terminal;		/* TTY: the link that handed it over;
					 * 0: the agent opens one */
	struct wire_bytes user;		/* NAME|UID[:GROUP|GID]; empty: the
					 * target's own */
	struct wire_bytes cwd;		/* empty: the target's own */
	struct wire_list argv;		/* at least one, but for SHELL */
	struct wire_list env;		/* K=V, added to the inherited */
	struct wire_list unset;
	struct wire_list limits;	/* u8 resource, u64 soft, u64 hard;
					 * Linux numbers, 2^64-1: unlimited */
};

enum wire_put_flags {
	WIRE_PUT_PARENTS = 1,		/* make missing directories */
	WIRE_PUT_APPEND = 2,		/* add to the end of what is there */
	WIRE_PUT_RESUME = 4,		/* keep a partial file, go on with it;
					 * OUT begins with f(PARTIAL) */
	WIRE_PUT_HASH = 8,		/* IN ends with the file's hash, which
					 * is compared; FILE_INFO has it */
	WIRE_PUT_MODE = 16,		/* mode is for an existing file too, and
					 * no umask counts */
	WIRE_PUT_MTIME = 32,		/* mtime counts */
	WIRE_PUT_OWNER = 64,		/* uid and gid, where that is allowed */
	WIRE_PUT_DISCARD = 128		/* with RESUME: only remove the partial
					 * file; no bytes, FILE_INFO is its,
					 * links 0: there was none */
};

/* IN: f(START), then the bytes, then with HASH theirs (WIRE_HASH). */
struct wire_put {
	uint32_t flags;
	uint32_t mode;			/* of a new file */
	uint32_t uid, gid;
	uint64_t mtime;			/* ns since 1970, two's complement */
	struct wire_bytes user;		/* as in wire_exec */
	struct wire_bytes path;		/* relative: to the default cwd */
	struct wire_bytes name;		/* in path, if that is a directory */
};

enum wire_get_flags {
	WIRE_GET_RESUME = 1,		/* have and hash count */
	WIRE_GET_HASH = 2,		/* FILE_INFO has the hash */
	WIRE_GET_DENSE = 4		/* holes as zeros */
};

/* OUT: f(START), then the bytes. */
struct wire_get {
	uint32_t flags;
	uint64_t offset;		/* of the first byte wanted */
	uint64_t length;		/* at most; WIRE_TO_END */
	uint64_t have;			/* bytes that the host has already */
	struct wire_bytes user;		/* as in wire_exec */
	struct wire_bytes path;
	struct wire_bytes hash;		/* of those bytes */
};
#define WIRE_TO_END UINT64_MAX		/* lengths: to the file's end */

enum wire_start_flags {
	WIRE_START_SPARSE = 1,		/* extents count */
	WIRE_START_ZEROS = 2		/* it has holes, but its file system
					 * does not say where */
};

/* What a file's bytes are: all that follows from one offset, or extents. */
struct wire_start {
	uint32_t flags;
	uint64_t from;			/* offset in the file of the first */
	uint64_t size;			/* for show; 0: unknown */
	struct wire_bytes extents;	/* u64 offset, u64 length; rising, and
					 * the last one is WIRE_TO_END long */
};

/* What is there of a file already. */
struct wire_partial {
	uint64_t size;
	struct wire_bytes hash;		/* of those bytes */
};

enum wire_fs_op {
	WIRE_FS_STAT = 1,		/* RESULT carries FILE_INFO */
	WIRE_FS_LIST = 2,		/* OUT: each entry as f(FILE_INFO) */
	WIRE_FS_MKDIR = 3,
	WIRE_FS_REMOVE = 4,
	WIRE_FS_RENAME = 5,
	WIRE_FS_CHMOD = 6,
	WIRE_FS_CHOWN = 7,
	WIRE_FS_SYMLINK = 8
};

enum wire_fs_flags {
	WIRE_FS_PARENTS = 1,		/* MKDIR: missing ones too; what is a
					 * directory already is no error */
	WIRE_FS_TREE = 2,		/* REMOVE: with all that is in it */
	WIRE_FS_FOLLOW = 4,		/* STAT, CHOWN: a link's target */
	WIRE_FS_MODE = 8		/* MKDIR: mode counts, without umask */
};

struct wire_fs {
	uint8_t op;
	uint32_t flags;
	uint32_t mode;			/* MKDIR, CHMOD */
	struct wire_bytes user;		/* as in wire_exec */
	struct wire_bytes path;
	struct wire_bytes second;	/* RENAME: the new name; SYMLINK: what
					 * it says; CHOWN: NAME|UID[:GROUP|GID],
					 * with a leading ':' the group alone */
};

enum wire_tree_flags {
	WIRE_TREE_SKIP = 1,		/* go on without what is unreadable */
	WIRE_TREE_SETID = 2,		/* keep setuid and setgid bits */
	WIRE_TREE_OWNER = 4,		/* keep uid and gid */
	WIRE_TREE_PARENTS = 8,		/* make what path lacks */
	WIRE_TREE_FOLLOW = 16		/* a link that is the whole tree */
};

struct wire_tree_put {
	uint32_t flags;			/* enum wire_tree_flags */
	struct wire_bytes user;		/* as in wire_exec */
	struct wire_bytes path;
	struct wire_bytes name;		/* in path, if that is a directory;
					 * empty: the content goes into it */
};

struct wire_tree_get {
	uint32_t flags;			/* SKIP and FOLLOW count */
	struct wire_bytes user;		/* as in wire_exec */
	struct wire_bytes path;
};

struct wire_empty {			/* PROBE, ECHO, JOBS, STOP, LINKINFO */
	uint8_t unused;
};

struct wire_kill {
	uint32_t job;			/* EXEC_INFO.job */
	uint8_t signal;			/* 0: end it; TERM, grace, KILL */
};

enum wire_attach_flags {
	WIRE_ATTACH_FOLLOW = 1,		/* until the job ends; else what is */
	WIRE_ATTACH_STDIN = 2,		/* IN is the job's stdin */
	WIRE_ATTACH_QUIET = 4,		/* no output */
	WIRE_ATTACH_FORGET = 8		/* with RESULT its record goes */
};

struct wire_attach {
	uint32_t job;
	uint32_t flags;
	uint64_t out, err;		/* offsets to begin at */
};

struct wire_status {
	uint8_t json;
};

enum wire_probe_flags {
	WIRE_PROBE_NO_NEW_PRIVS = 1,
	WIRE_PROBE_TTY = 2
};

struct wire_probe_info {
	uint32_t flags;
	uint32_t uid, gid;
	uint64_t caps;			/* effective */
	uint64_t bounding;
	uint32_t seccomp;		/* mode */
	uint32_t landlock;		/* ABI, 0: none */
	uint32_t pid;			/* of the core */
	struct wire_bytes program;	/* version text */
	struct wire_bytes arch;
	struct wire_bytes exe;		/* its own path */
	struct wire_bytes cwd;		/* default working directory */
	struct wire_bytes hash;		/* 32 bytes, empty: unreadable */
	struct wire_list dirs;		/* writable and executable */
};

enum wire_file_info_flags {
	WIRE_FILE_ATOMIC = 1		/* PUT: it came under its name whole */
};

struct wire_file_info {
	uint32_t flags;
	uint64_t size;			/* GET: the offset where it ended */
	uint32_t mode;			/* with the type, as Linux has it */
	uint32_t uid, gid;
	uint64_t mtime;			/* ns since 1970, two's complement */
	uint64_t blocks;		/* of 512 bytes */
	uint32_t links;
	struct wire_bytes hash;		/* of the whole file, if asked for */
	struct wire_bytes name;		/* LIST */
	struct wire_bytes link;		/* what a symbolic link says */
};

/* What a tree's stream has carried; also its last message. */
struct wire_tree_info {
	uint64_t entries;		/* of any kind */
	uint64_t files;			/* regular ones, sent with content */
	uint64_t bytes;			/* of their content */
	uint64_t links;			/* hard links to such */
	uint64_t skipped;		/* SKIPPED messages */
};

/* With the RESULT of EXEC and ATTACH, where a process was started. */
enum wire_exec_info_flags {
	WIRE_EXEC_CWD_FELL_BACK = 1,	/* no -w, and the target's own cannot
					 * be entered: cwd says where instead */
	WIRE_EXEC_RUNNING = 2		/* DETACH, ATTACH: it has not ended */
};

struct wire_exec_info {
	uint32_t job;			/* names it in this session */
	uint32_t flags;
	uint32_t uid;			/* that it ran as */
	uint64_t user_us, system_us;	/* cpu of all reaped descendants */
	uint64_t read_blocks;		/* of 512 bytes, theirs too */
	uint64_t written_blocks;
	uint64_t peak_kib;		/* RSS of the largest of them */
	uint64_t out_from, err_from;	/* ATTACH: offset of the first byte */
	struct wire_bytes cwd;		/* if it fell back */
	struct wire_list survivors;	/* "PID NAME" that could not be ended */
};

enum wire_job_state {
	WIRE_JOB_RUNNING = 0,
	WIRE_JOB_STOPPED = 1,		/* its leader is */
	WIRE_JOB_BACKGROUND = 2,	/* ended; descendants live on */
	WIRE_JOB_ENDED = 3		/* its result and output are kept */
};

/* JOBS answers on OUT with each as f(JOB). */
struct wire_job {
	uint32_t job;
	uint8_t state;			/* enum wire_job_state */
	uint8_t outcome;		/* BACKGROUND, ENDED: as in RESULT */
	int32_t code;
	uint32_t uid, pid;		/* pid of its leader */
	uint32_t processes;		/* alive, its init not counted */
	uint64_t age_us;		/* since its start */
	uint64_t cpu_us;		/* of those alive and those reaped */
	uint8_t detached;
	uint8_t terminal;		/* its stdio is one */
	struct wire_bytes user;		/* as asked; empty: the target's own */
	struct wire_bytes command;	/* argv with spaces between, cut */
};

enum wire_entry_kind {
	WIRE_ENTRY_FILE = 1,		/* CHUNKs follow */
	WIRE_ENTRY_DIR = 2,		/* its entries follow */
	WIRE_ENTRY_SYMLINK = 3,
	WIRE_ENTRY_LINK = 4		/* hard, to a file that came before */
};

/* Something in the innermost directory that is open. */
struct wire_entry {
	uint8_t kind;			/* enum wire_entry_kind */
	uint32_t mode;			/* permission bits */
	uint32_t uid, gid;
	uint64_t seconds;		/* mtime, two's complement */
	uint32_t nanoseconds;
	struct wire_bytes name;		/* one component; empty: the first,
					 * whose name the receiver knows */
	struct wire_bytes target;	/* SYMLINK: its text; LINK: a path
					 * from the first entry down */
};

struct wire_chunk {
	struct wire_bytes bytes;	/* at least one */
};

struct wire_hole {			/* in a file, instead of zeros */
	uint64_t bytes;
};

struct wire_entry_end {			/* of the innermost FILE or DIR */
	uint8_t unused;
};

/* In a file: the file does not count; else something never came. */
struct wire_skipped {
	uint32_t error;			/* Linux errno */
	struct wire_bytes path;		/* as LINK's; cut if too long */
};

/* Any message, decoded. */
struct wire {
	uint8_t type;
	union {
		struct wire_ready ready;
		struct wire_resume resume;
		struct wire_ack ack;
		struct wire_ping ping;
		struct wire_pong pong;
		struct wire_close close;
		struct wire_terminal terminal;
		struct wire_open open;
		struct wire_data data;
		struct wire_credit credit;
		struct wire_eof eof;
		struct wire_signal signal;
		struct wire_resize resize;
		struct wire_result result;
		struct wire_cancel cancel;
		struct wire_log log;
		struct wire_hello hello;
		struct wire_welcome welcome;
		struct wire_handover handover;
		struct wire_live live;
		struct wire_exec exec;
		struct wire_put put;
		struct wire_get get;
		struct wire_fs fs;
		struct wire_start start;
		struct wire_partial partial;
		struct wire_empty empty;
		struct wire_kill kill;
		struct wire_attach attach;
		struct wire_status status;
		struct wire_probe_info probe_info;
		struct wire_file_info file_info;
		struct wire_exec_info exec_info;
		struct wire_job job;
		struct wire_tree_put tree_put;
		struct wire_tree_get tree_get;
		struct wire_tree_info tree_info;
		struct wire_entry entry;
		struct wire_chunk chunk;
		struct wire_entry_end entry_end;
		struct wire_skipped skipped;
		struct wire_hole hole;
	} u;
};

enum wire_err {
	WIRE_OK = 0,
	WIRE_ERR_SHORT,			/* the message ends inside a field */
	WIRE_ERR_TRAILING,		/* bytes left after the last field */
	WIRE_ERR_LIMIT,			/* a length or count over its limit */
	WIRE_ERR_TYPE,			/* no such message */
	WIRE_ERR_SPACE			/* encode: does not fit */
};

/* How a type may travel: enum wire_class, or -1 for an unknown type. */
enum wire_class {
	WIRE_CLASS_LINK,
	WIRE_CLASS_SESSION,
	WIRE_CLASS_CLIENT,
	WIRE_CLASS_BODY
};
int wire_class(uint8_t type);

/* The message's name for people and logs; "unknown" for an unknown type. */
const char *wire_name(uint8_t type);

/*
 * Decode one whole message of len bytes into *out, whose bytes and lists
 * borrow from data.  Lists are checked to their last item.
 */
enum wire_err wire_decode(const uint8_t *data, size_t len, struct wire *out);

/*
 * Encode *msg into out[cap]; *len is the length used.  READY is padded to
 * WIRE_READY_BYTES.  WIRE_ERR_LIMIT names a field over its limit.
 */
enum wire_err wire_encode(const struct wire *msg, uint8_t *out, size_t cap,
    size_t *len);

/* The length wire_encode() needs, 0 for an unknown type. */
size_t wire_size(const struct wire *msg);

/*
 * Take the next item off a decoded list; false at the end.  The list must
 * come from wire_decode(), which has checked it.
 */
bool wire_next(struct wire_list *list, struct wire_bytes *item);

/* One field as a test or a document generator sees it; NULL at the end. */
const char *wire_tag(uint8_t type, unsigned index);

/* A number of `bytes` bytes (at most 8), big-endian as all are here. */
uint64_t wire_number_get(const uint8_t *at, unsigned bytes);
void wire_number_put(uint8_t *at, uint64_t value, unsigned bytes);

/*
 * Bytes as a C string into out[cap]; -1 if they do not fit or hold a NUL.
 */
int wire_copy(char *out, size_t cap, struct wire_bytes from);

/* Words for a wire_err. */
const char *wire_err_text(enum wire_err err);

/* Bytes of a C string, without its NUL. */
struct wire_bytes wire_string(const char *text);

#endif
