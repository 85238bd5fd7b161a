/* SPDX-License-Identifier: MIT */
/* terminal.c - terminals of jobs: a new one, and modes of one handed over. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

int
terminal_open(int *master, int *slave, char path[TERMINAL_PATH],
    const char **what)
{
	int saved;

	*what = "/dev/ptmx";
	*master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master == -1) {
		*master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	}
	if (*master == -1) {
		return -1;
	}
	*what = "a new terminal";
	if (unlockpt(*master) == 0 &&
	    ptsname_r(*master, path, TERMINAL_PATH) == 0) {
		*what = path;
		*slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (*slave != -1) {
			return 0;
		}
	}
	saved = errno;
	close(*master);
	errno = saved;
	return -1;
}

bool
terminal_possible(void)
{
	char path[TERMINAL_PATH];
	const char *what;
	int master, slave;

	if (terminal_open(&master, &slave, path, &what) == -1) {
		return false;
	}
	close(slave);
	close(master);
	return true;
}

int
terminal_cook(int fd, bool output)
{
	struct termios t;

	if (tcgetattr(fd, &t) == -1) {
		return -1;
	}
	t.c_iflag = ICRNL | IXON;
	t.c_oflag = output ? OPOST | ONLCR : 0;
	t.c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE |
	    IEXTEN;
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	return tcsetattr(fd, TCSANOW, &t);
}

void
terminal_resize(int fd, unsigned rows, unsigned columns)
{
	struct winsize size = { .ws_row = (unsigned short)rows,
	    .ws_col = (unsigned short)columns };

	if (rows != 0 && columns != 0) {
		ioctl(fd, TIOCSWINSZ, &size);
	}
}
