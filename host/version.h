/* SPDX-License-Identifier: MIT */
/* version.h - the program's version. */
#ifndef VERSION_H
#define VERSION_H

#ifndef SANDMUX_VERSION
#error "the Makefile's VERSION is the only one"
#endif

#endif
