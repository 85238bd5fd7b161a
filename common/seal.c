/* SPDX-License-Identifier: MIT */
/* seal.c - keys, records sealed and opened, and what wipes them. */
#include "seal.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEAL_PAGE 4096u
#define SEAL_LABEL "sandmux-link-1"

_Static_assert(SEAL_KEY == crypto_kx_PUBLICKEYBYTES, "kx key");
_Static_assert(SEAL_KEY == crypto_kx_SESSIONKEYBYTES, "kx session key");
_Static_assert(SEAL_KEY == crypto_secretstream_xchacha20poly1305_KEYBYTES,
    "stream key");
_Static_assert(SEAL_HEADER == crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    "stream header");
_Static_assert(SEAL_OVERHEAD == crypto_secretstream_xchacha20poly1305_ABYTES,
    "stream overhead");

typedef crypto_secretstream_xchacha20poly1305_state stream;

struct seal {
	enum seal_role role;
	bool paired;			/* secret and kx keys are still here */
	bool derived;
	uint8_t public[SEAL_KEY];
	uint8_t secret[SEAL_KEY];
	uint8_t k_ha[SEAL_KEY], k_ah[SEAL_KEY];	/* from kx */
	uint8_t t[SEAL_KEY];
	uint8_t open_key[SEAL_KEY];	/* until the peer's header came */
	stream out, in;
};

struct seal_secret {
	uint8_t s[SEAL_KEY];
	bool set;
};

_Static_assert(sizeof(struct seal) <= SEAL_PAGE, "one page");

static void *
page_new(void)
{
	void *page = mmap(NULL, SEAL_PAGE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		return NULL;
	}
	/*
	 * Each of these may be refused (old kernel, emulator): children wipe
	 * explicitly too, and the process is not dumpable anyway.
	 */
#ifdef MADV_WIPEONFORK
	madvise(page, SEAL_PAGE, MADV_WIPEONFORK);
#endif
#ifdef MADV_DONTDUMP
	madvise(page, SEAL_PAGE, MADV_DONTDUMP);
#endif
	mlock(page, SEAL_PAGE);
	return page;
}

static void
page_free(void *page)
{
	int saved = errno;

	if (page != NULL) {
		sodium_memzero(page, SEAL_PAGE);
		munmap(page, SEAL_PAGE);
	}
	errno = saved;
}

int
seal_init(void)
{
	return sodium_init() < 0 ? -1 : 0;
}

struct seal_secret *
seal_secret_new(void)
{
	return page_new();
}

void
seal_secret_wipe(struct seal_secret *secret)
{
	if (secret != NULL) {
		sodium_memzero(secret, SEAL_PAGE);
	}
}

bool
seal_secret_get(const struct seal_secret *secret, uint8_t out[SEAL_KEY])
{
	memcpy(out, secret->s, SEAL_KEY);
	return secret->set;
}

void
seal_secret_set(struct seal_secret *secret, const uint8_t in[SEAL_KEY])
{
	memcpy(secret->s, in, SEAL_KEY);
	secret->set = true;
}

void
seal_secret_free(struct seal_secret *secret)
{
	page_free(secret);
}

struct seal *
seal_new(enum seal_role role)
{
	struct seal *seal = page_new();

	if (seal == NULL) {
		return NULL;
	}
	seal->role = role;
	if (crypto_kx_keypair(seal->public, seal->secret) != 0) {
		page_free(seal);
		errno = EIO;
		return NULL;
	}
	seal->paired = true;
	return seal;
}

void
seal_wipe(struct seal *seal)
{
	if (seal != NULL) {
		sodium_memzero(seal, SEAL_PAGE);
	}
}

void
seal_free(struct seal *seal)
{
	page_free(seal);
}

const uint8_t *
seal_public(const struct seal *seal)
{
	return seal->public;
}

/* f(data): its length, then itself. */
static int
absorb(crypto_generichash_state *st, const void *data, size_t len)
{
	uint8_t n[4] = { (uint8_t)(len >> 24), (uint8_t)(len >> 16),
	    (uint8_t)(len >> 8), (uint8_t)len };

	if (crypto_generichash_update(st, n, sizeof(n)) != 0) {
		return -1;
	}
	return crypto_generichash_update(st, data, len);
}

static int
transcript(const struct seal_binding *b, uint8_t t[SEAL_KEY])
{
	crypto_generichash_state st;
	uint8_t link[4] = { (uint8_t)(b->link >> 24), (uint8_t)(b->link >> 16),
	    (uint8_t)(b->link >> 8), (uint8_t)b->link };

	if (crypto_generichash_init(&st, NULL, 0, SEAL_KEY) != 0 ||
	    absorb(&st, SEAL_LABEL, sizeof(SEAL_LABEL) - 1) != 0 ||
	    absorb(&st, b->versions, strlen(b->versions)) != 0 ||
	    absorb(&st, b->token, strlen(b->token)) != 0 ||
	    absorb(&st, b->session, strlen(b->session)) != 0 ||
	    absorb(&st, link, sizeof(link)) != 0 ||
	    absorb(&st, b->host_key, SEAL_KEY) != 0 ||
	    absorb(&st, b->hello, b->hello_len) != 0) {
		return -1;
	}
	return crypto_generichash_final(&st, t, SEAL_KEY);
}

/* out = keyed hash of label, t and a third 32-byte value. */
static int
mix(uint8_t out[SEAL_KEY], const uint8_t key[SEAL_KEY], char label,
    const uint8_t t[SEAL_KEY], const uint8_t third[SEAL_KEY])
{
	uint8_t in[1 + 2 * SEAL_KEY];
	int rc;

	in[0] = (uint8_t)label;
	memcpy(in + 1, t, SEAL_KEY);
	memcpy(in + 1 + SEAL_KEY, third, SEAL_KEY);
	rc = crypto_generichash(out, SEAL_KEY, in, sizeof(in), key, SEAL_KEY);
	sodium_memzero(in, sizeof(in));
	return rc;
}

static int
exchange(struct seal *seal, const uint8_t *peer_key)
{
	if (seal->role == SEAL_HOST) {
		return crypto_kx_client_session_keys(seal->k_ah, seal->k_ha,
		    seal->public, seal->secret, peer_key);
	}
	return crypto_kx_server_session_keys(seal->k_ha, seal->k_ah,
	    seal->public, seal->secret, peer_key);
}

int
seal_derive(struct seal *seal, struct seal_secret *secret,
    const struct seal_binding *b, const uint8_t *peer_key, uint8_t *header)
{
	uint8_t send[SEAL_KEY], ha[SEAL_KEY], ah[SEAL_KEY];
	int rc = -1;

	if (!seal->paired || secret->set != (b->link != 1)) {
		return -1;
	}
	seal->derived = false;
	/* An unset S is 32 zero bytes, as link 1 wants it. */
	if (exchange(seal, peer_key) != 0 || transcript(b, seal->t) != 0 ||
	    mix(ha, seal->k_ha, 'H', seal->t, secret->s) != 0 ||
	    mix(ah, seal->k_ah, 'A', seal->t, secret->s) != 0) {
		goto out;
	}
	memcpy(send, seal->role == SEAL_HOST ? ha : ah, SEAL_KEY);
	memcpy(seal->open_key, seal->role == SEAL_HOST ? ah : ha, SEAL_KEY);
	if (crypto_secretstream_xchacha20poly1305_init_push(&seal->out, header,
	    send) != 0) {
		goto out;
	}
	seal->derived = true;
	rc = 0;
out:
	sodium_memzero(send, sizeof(send));
	sodium_memzero(ha, sizeof(ha));
	sodium_memzero(ah, sizeof(ah));
	return rc;
}

int
seal_accept(struct seal *seal, const uint8_t *header)
{
	int rc;

	if (!seal->derived) {
		return -1;
	}
	rc = crypto_secretstream_xchacha20poly1305_init_pull(&seal->in,
	    header, seal->open_key);
	sodium_memzero(seal->open_key, SEAL_KEY);
	return rc;
}

int
seal_settle(struct seal *seal, struct seal_secret *secret,
    const struct seal_binding *b)
{
	int rc = 0;

	if (!seal->derived || !seal->paired) {
		return -1;
	}
	if (b->link == 1) {
		rc = mix(secret->s, seal->k_ha, 'S', seal->t, seal->k_ah);
		secret->set = rc == 0;
	}
	seal->paired = false;
	sodium_memzero(seal->secret, SEAL_KEY);
	sodium_memzero(seal->k_ha, SEAL_KEY);
	sodium_memzero(seal->k_ah, SEAL_KEY);
	return rc;
}

int
seal_push(struct seal *seal, uint8_t *out, const uint8_t *plain, size_t len,
    const uint8_t *ad, size_t ad_len)
{
	if (!seal->derived ||
	    len > crypto_secretstream_xchacha20poly1305_MESSAGEBYTES_MAX) {
		return -1;
	}
	return crypto_secretstream_xchacha20poly1305_push(&seal->out, out,
	    NULL, plain, len, ad, ad_len,
	    crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}

int
seal_open(struct seal *seal, uint8_t *out, const uint8_t *sealed, size_t len,
    const uint8_t *ad, size_t ad_len)
{
	uint8_t tag;

	if (!seal->derived || len < SEAL_OVERHEAD) {
		return -1;
	}
	if (crypto_secretstream_xchacha20poly1305_pull(&seal->in, out, NULL,
	    &tag, sealed, len, ad, ad_len) != 0) {
		return -1;
	}
	return tag == crypto_secretstream_xchacha20poly1305_TAG_MESSAGE ?
	    0 : -1;
}

void
seal_random(void *out, size_t len)
{
	randombytes_buf(out, len);
}

int
seal_hash_fd(int fd, uint8_t out[SEAL_KEY])
{
	crypto_generichash_state st;
	uint8_t buf[16384];
	ssize_t n;

	if (crypto_generichash_init(&st, NULL, 0, SEAL_KEY) != 0) {
		errno = EIO;
		return -1;
	}
	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return -1;
		}
		crypto_generichash_update(&st, buf, (size_t)n);
	}
	return crypto_generichash_final(&st, out, SEAL_KEY);
}

void
seal_hash(const void *data, size_t len, uint8_t out[SEAL_KEY])
{
	crypto_generichash(out, SEAL_KEY, data, len, NULL, 0);
}

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(struct seal_digest),
    "a digest holds libsodium's state");

static crypto_generichash_state *
state_of(struct seal_digest *digest)
{
	return (crypto_generichash_state *)(void *)digest->state;
}

void
seal_digest_init(struct seal_digest *digest)
{
	crypto_generichash_init(state_of(digest), NULL, 0, SEAL_KEY);
}

void
seal_digest_add(struct seal_digest *digest, const void *data, size_t len)
{
	crypto_generichash_update(state_of(digest), data, len);
}

void
seal_digest_get(const struct seal_digest *digest, uint8_t out[SEAL_KEY])
{
	struct seal_digest copy = *digest;

	crypto_generichash_final(state_of(&copy), out, SEAL_KEY);
}

void
seal_hex(const uint8_t *data, size_t len, char *out)
{
	sodium_bin2hex(out, 2 * len + 1, data, len);
}

int
seal_unhex(const char *text, uint8_t *out, size_t len)
{
	size_t i;
	int hi, lo;

	for (i = 0; i < len; i++) {
		const char *digits = "0123456789abcdef";
		const char *h = text[2 * i] == '\0' ? NULL :
		    strchr(digits, text[2 * i]);
		const char *l = h == NULL || text[2 * i + 1] == '\0' ? NULL :
		    strchr(digits, text[2 * i + 1]);

		if (l == NULL) {
			return -1;
		}
		hi = (int)(h - digits);
		lo = (int)(l - digits);
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return text[2 * len] == '\0' ? 0 : -1;
}
