/* SPDX-License-Identifier: MIT */
/*
 * transport_openshell.h - what transport_openshell.c and
 * transport_openshell_life.c share: links into sandboxes, and their lives.
 */
#ifndef TRANSPORT_OPENSHELL_H
#define TRANSPORT_OPENSHELL_H

#include "runcmd.h"
#include "transport.h"

#define PROGRAM "openshell"
#define CURE "install OpenShell's CLI or add its directory to PATH"


/* Whether a --help text has the option as a word of its own. */
bool transport_openshell_lists(const char *help, const char *option);

extern const struct transport_life transport_openshell_life;

#endif
