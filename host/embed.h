/* SPDX-License-Identifier: MIT */
/*
 * embed.h - the agents that the host program carries in itself.
 *
 * embed.S takes them in at build time: the one for the host's architecture
 * always, the arm64 one where it was built.
 */
#ifndef EMBED_H
#define EMBED_H

#include <stddef.h>
#include <stdint.h>

#include "seal.h"

struct embed {
	const uint8_t *data;
	size_t len;
	char hash[2 * SEAL_KEY + 1];	/* BLAKE2b-256, hex */
};

/*
 * The agent for an architecture by Docker's or uname's name ("amd64",
 * "x86_64"); empty means the host's.  0, or -1: this build has none.
 */
int embed_find(const char *arch, struct embed *embed);

/* What this build has, for messages: "amd64, arm64". */
const char *embed_list(void);

#endif
