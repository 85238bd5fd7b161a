/* SPDX-License-Identifier: MIT */
/*
 * seal.h - keys and sealing: the only file that uses libsodium.
 *
 * Called by link.c and by the programs' starts.  Secrets live in pages of
 * their own (zeroed in children by MADV_WIPEONFORK, not dumped); a child also
 * calls the _wipe functions first thing.  Lengths are checked before
 * libsodium sees them.  Nothing here blocks once seal_init() has returned.
 */
#ifndef SEAL_H
#define SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEAL_KEY 32		/* public keys, hashes */
#define SEAL_HEADER 24		/* before each direction's first record */
#define SEAL_OVERHEAD 17	/* a record's ciphertext beyond its plaintext */

struct seal;			/* one link's keys */
struct seal_secret;		/* a session's S */

enum seal_role {
	SEAL_HOST,		/* controller */
	SEAL_CORE		/* agent */
};

/* What T is made of; all borrowed. */
struct seal_binding {
	const char *versions;	/* the host's range as in argv */
	const char *token;
	const char *session;
	uint32_t link;
	const uint8_t *host_key;	/* SEAL_KEY bytes */
	const uint8_t *hello;
	size_t hello_len;
};

/* Once per process, before all else here; 0 or -1. */
int seal_init(void);

/* A session's secret, not set yet; NULL with errno.  Wipe = zero and keep. */
struct seal_secret *seal_secret_new(void);
void seal_secret_wipe(struct seal_secret *secret);
void seal_secret_free(struct seal_secret *secret);
/* For a session that goes to another process: out as it is, false: unset. */
bool seal_secret_get(const struct seal_secret *secret,
    uint8_t out[SEAL_KEY]);
void seal_secret_set(struct seal_secret *secret,
    const uint8_t in[SEAL_KEY]);

/* A fresh key pair for one link; NULL with errno. */
struct seal *seal_new(enum seal_role role);
void seal_wipe(struct seal *seal);
void seal_free(struct seal *seal);
const uint8_t *seal_public(const struct seal *seal);

/*
 * Derive this link's keys and wipe the pair; on link 1 also S, which must
 * be unset there and set on every other.  header (SEAL_HEADER bytes)
 * receives our direction's header.  0, or -1: the peer's key is refused, or
 * S and the link number do not fit (then nothing can be opened or sealed).
 * A host may call it again with another peer key until a READY opened;
 * seal_settle() ends that and wipes the pair.
 */
int seal_derive(struct seal *seal, struct seal_secret *secret,
    const struct seal_binding *binding, const uint8_t *peer_key,
    uint8_t *header);
/* Take the peer's header (SEAL_HEADER bytes); 0 or -1. */
int seal_accept(struct seal *seal, const uint8_t *header);
/* The link is proven: set S on link 1, wipe the pair.  0 or -1. */
int seal_settle(struct seal *seal, struct seal_secret *secret,
    const struct seal_binding *binding);

/*
 * Seal len bytes of plain into out[len + SEAL_OVERHEAD], with ad[ad_len]
 * authenticated.  0 or -1.  seal_open() is its reverse: len is the
 * ciphertext's, out gets len - SEAL_OVERHEAD bytes; -1: forged.
 */
int seal_push(struct seal *seal, uint8_t *out, const uint8_t *plain,
    size_t len, const uint8_t *ad, size_t ad_len);
int seal_open(struct seal *seal, uint8_t *out, const uint8_t *sealed,
    size_t len, const uint8_t *ad, size_t ad_len);

/* Fill with random bytes. */
void seal_random(void *out, size_t len);

/* BLAKE2b-256 of everything read from fd until its end; 0 or -1 + errno. */
int seal_hash_fd(int fd, uint8_t out[SEAL_KEY]);
void seal_hash(const void *data, size_t len, uint8_t out[SEAL_KEY]);

/* A running BLAKE2b-256; a copy of it goes on from the same place. */
struct seal_digest {
	_Alignas(64) uint8_t state[384];
};
void seal_digest_init(struct seal_digest *digest);
void seal_digest_add(struct seal_digest *digest, const void *data,
    size_t len);
/* What it is so far; *digest can go on. */
void seal_digest_get(const struct seal_digest *digest,
    uint8_t out[SEAL_KEY]);

/* Hex, lower case; out[2 * len + 1].  seal_unhex: 0 or -1 (not all hex). */
void seal_hex(const uint8_t *data, size_t len, char *out);
int seal_unhex(const char *text, uint8_t *out, size_t len);

#endif
