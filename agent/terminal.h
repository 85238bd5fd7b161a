/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - terminals of jobs: a new one, and the modes of one handed
 * over.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A new terminal's two ends, owned by the caller.  0, or -1 with errno and
 * *what; path is where the name is put that *what may point to.
 */
#define TERMINAL_PATH 64u
int terminal_open(int *master, int *slave, char path[TERMINAL_PATH],
    const char **what);
/* Whether that works here. */
bool terminal_possible(void);

/*
 * Give a terminal the modes of a new one; without output, what is written
 * still comes out as it is.  0, or -1 with errno.
 */
int terminal_cook(int fd, bool output);

/* Set its size unless one is 0. */
void terminal_resize(int fd, unsigned rows, unsigned columns);

#endif
