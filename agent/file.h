/* SPDX-License-Identifier: MIT */
/*
 * file.h - worker processes that read and write files, and one that looks.
 *
 * Each runs in its own process, so that a hung file system stops only its
 * own request, and as the request's user.  They answer req themselves when
 * they cannot be started.
 */
#ifndef FILE_H
#define FILE_H

#include <sys/stat.h>

#include "agent.h"
#include "session.h"

#define FILE_PIECE 131072u		/* bytes moved at once */

/* put.c */
void file_put(struct session_request *req, const struct wire_put *put,
    const struct agent_start *start);
void file_get(struct session_request *req, const struct wire_get *get,
    const struct agent_start *start);
/* file_tree.c */
void file_tree_put(struct session_request *req,
    const struct wire_tree_put *put, const struct agent_start *start);
void file_tree_get(struct session_request *req,
    const struct wire_tree_get *get, const struct agent_start *start);
/* fs.c */
void file_fs(struct session_request *req, const struct wire_fs *fs,
    const struct agent_start *start);
void file_probe(struct session_request *req);

/* probe.c: the PROBE_INFO message into buf[WIRE_INFO_MAX]; its length. */
size_t probe_info(uint8_t *buf);

/* ---- what those share ------------------------------------------------- */

/* Whom a worker becomes and what it works on. */
struct file_who {
	char user[WIRE_USER_MAX + 1];	/* "": stay who we are */
	const char *groups;		/* borrowed: added to the user's */
	char path[WIRE_PATH_MAX];
};

/* A body's path and user; -1: req has been answered. */
int file_take_who(struct file_who *who, struct session_request *req,
    struct wire_bytes user, struct wire_bytes path,
    const struct agent_start *start);
/* Answer req: the request itself is wrong. */
void file_refuse(struct session_request *req, const char *what);

/* In a worker: become the user, to the end; fails on the note. */
void file_become(const struct file_who *who, int note);
/* In a worker; without EINTR.  All of buf: 0, or -1 with errno. */
int file_write(int fd, const void *buf, size_t len);
ssize_t file_read(int fd, void *buf, size_t cap);
/* What stat() knows of it. */
void file_info(struct wire_file_info *info, const struct stat *st);
/* Report success, with info as FILE_INFO. */
void file_done(int note, const struct wire_file_info *info)
    __attribute__((noreturn));

#endif
