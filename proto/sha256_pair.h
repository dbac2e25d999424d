/*
 * sha256_pair: SHA-256 of two messages at once; see sha256_pair.c. Private to the wire modules.
 */
#ifndef DVT_SHA256_PAIR_H
#define DVT_SHA256_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include <openssl/sha.h>

/* Feeds n bytes at p[i] to s[i], as SHA256_Update would. n is a multiple of 64 and both contexts are between
 * blocks. */
void dvt_sha256_pair(SHA256_CTX s[2], const uint8_t *const p[2], size_t n);

#endif
