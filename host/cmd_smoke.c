/* SPDX-License-Identifier: MIT */
/* cmd_smoke.c - `sandmux smoke`: a sandbox's whole life, step by step. */
#include "cmd.h"
int cmd_smoke(int argc, char **argv) { (void)argc; (void)argv; return 1; }
