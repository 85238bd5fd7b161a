/* SPDX-License-Identifier: MIT */
/* cmd_version.c - `sandmux version`: what this program is. */
#include "cmd.h"

#include <stdio.h>

#include "version.h"
#include "wire.h"

int
cmd_version(int argc, char **argv)
{
	int status = cmd_plain(argc, argv, "usage: sandmux version\n");

	if (status != 0) {
		return status - 1;
	}
	printf("sandmux %s (protocol %d-%d)\n", SANDMUX_VERSION,
	    WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	return fflush(stdout) == 0 ? CMD_OK : CMD_FAILED;
}
