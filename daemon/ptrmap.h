/*
 * ptrmap: a hash table of pointers to structs that hold their own keys. Layer 0.
 *
 * Keys come from outside (trace ids, thread ids), so their hashes are seeded at random per run with
 * ptrmap_hash: nobody can choose ids that collide. Open addressing, at most half full, deletion by shifting
 * back. One thread.
 */
#ifndef PTRMAP_H
#define PTRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptrmap_slot {
    uint64_t hash;
    void *value; /* NULL: free */
};
struct ptrmap {
    struct ptrmap_slot *slots; /* [mask + 1], or NULL while empty */
    uint32_t mask, n;
};

/* True if value has the key. */
typedef bool (*ptrmap_eq)(const void *value, const void *key);

void ptrmap_fini(struct ptrmap *m); /* the values are the caller's */
/* The value with the key, or NULL. */
void *ptrmap_get(const struct ptrmap *m, uint64_t hash, const void *key, ptrmap_eq eq);
/* Adds a value whose key is not in the map. 0 or DVT_ENOMEM. */
int ptrmap_add(struct ptrmap *m, uint64_t hash, void *value);
/* Removes this value (by identity); nothing happens if it is not there. */
void ptrmap_remove(struct ptrmap *m, uint64_t hash, const void *value);

/* Seeded hash of two words. The seed is drawn once per process. */
uint64_t ptrmap_hash(uint64_t a, uint64_t b);

#endif
