/* SPDX-License-Identifier: MIT */
/* version.h - the program's version. */
#ifndef VERSION_H
#define VERSION_H

#ifndef SANDMUX_VERSION		/* the Makefile passes it */
#define SANDMUX_VERSION "0.1.0"
#endif

#endif
