/* SPDX-License-Identifier: MIT */
/* embed.c - finds the embedded agent of an architecture. */
#include "embed.h"

#include <stdbool.h>
#include <string.h>

extern const uint8_t embed_agent_start[], embed_agent_end[];
extern const uint8_t embed_agent_arm64_start[], embed_agent_arm64_end[];

#if defined(__x86_64__)
#define HOST_ARCH "amd64"
#elif defined(__aarch64__)
#define HOST_ARCH "arm64"
#else
#define HOST_ARCH "unknown"
#endif

static const char *
canonical(const char *arch)
{
	if (arch[0] == '\0') {
		return HOST_ARCH;
	}
	if (strcmp(arch, "x86_64") == 0) {
		return "amd64";
	}
	return strcmp(arch, "aarch64") == 0 ? "arm64" : arch;
}

static bool
have_arm64(void)
{
	return (uintptr_t)embed_agent_arm64_end >
	    (uintptr_t)embed_agent_arm64_start;
}

int
embed_find(const char *arch, struct embed *embed)
{
	uint8_t hash[SEAL_KEY];

	arch = canonical(arch);
	if (strcmp(arch, HOST_ARCH) == 0) {
		embed->data = embed_agent_start;
		embed->len = (size_t)(embed_agent_end - embed_agent_start);
	} else if (strcmp(arch, "arm64") == 0 && have_arm64()) {
		embed->data = embed_agent_arm64_start;
		embed->len = (size_t)(embed_agent_arm64_end -
		    embed_agent_arm64_start);
	} else {
		return -1;
	}
	seal_hash(embed->data, embed->len, hash);
	seal_hex(hash, sizeof(hash), embed->hash);
	return 0;
}

const char *
embed_list(void)
{
	return strcmp(HOST_ARCH, "arm64") != 0 && have_arm64() ?
	    HOST_ARCH ", arm64" : HOST_ARCH;
}
