/*
 * wire_cols_put: writes columns of whole numbers, the compact form of scopes and stacks; PROTOCOL.md
 * "Columns".
 *
 * A batch's values of one field lie together, as small parts in the narrowest of five widths; the few parts
 * that are too large for it follow as patches, so that one long request does not widen the column of all
 * others. That costs a fraction of packing each number by itself, in time and in bytes: every byte of a
 * message is hashed by its sender and its receiver. Which width is best is counted, not tried.
 */
#include "wire_cols.h"

#include <endian.h>

struct plan {
    unsigned width, patch_width;
    size_t n_patches;
};
enum { SAMPLE_PARTS = 64, MAX_PATCHED = 65536 };
enum { BASE_BYTES = 8, N_PATCHES_BYTES = 2, PATCH_PLACE_BYTES = 2, PATCH_TIME_BYTES = 2 };

static unsigned width_for(uint64_t max)
{
    if (max == 0)
        return 0;
    if (max <= UINT8_MAX)
        return 1;
    if (max <= UINT16_MAX)
        return 2;
    return max <= UINT32_MAX ? 4 : 8;
}

/* The fewest bytes: full holds every part; over says how many a narrower width does not. A patch also costs
 * time, about as much as some bytes more to hash. */
static struct plan choose(size_t n, unsigned full, const size_t over[4], unsigned width_min)
{
    static const unsigned widths[] = {0, 1, 2, 4};
    struct plan best = {.width = full > width_min ? full : width_min};
    size_t best_bytes = n * best.width;
    for (size_t i = 0; n <= MAX_PATCHED && i < 4 && widths[i] < full; i++) {
        size_t patch_bytes = PATCH_PLACE_BYTES + full + PATCH_TIME_BYTES;
        size_t bytes = n * widths[i] + N_PATCHES_BYTES + over[i] * patch_bytes;
        if (widths[i] < width_min || over[i] > UINT16_MAX || bytes >= best_bytes)
            continue;
        best = (struct plan){widths[i], over[i] ? full : 0, over[i]};
        best_bytes = bytes;
    }
    return best;
}

/* Writes what comes before the parts; returns where they go. NULL after a failure. */
static uint8_t *pack_head(struct dvt_packer *k, size_t n, const struct dvt_parts *head,
                          const struct plan *plan, unsigned shift)
{
    size_t patches_bytes =
        plan->n_patches ? N_PATCHES_BYTES + plan->n_patches * (PATCH_PLACE_BYTES + plan->patch_width) : 0;
    size_t base_bytes = head->base ? BASE_BYTES : 0;
    uint8_t *p = dvt_pack_bin_room(k, DVT_COL_HEAD_BYTES + base_bytes + patches_bytes + n * plan->width);
    if (!p)
        return NULL;
    p[0] = (uint8_t)(head->kind | (shift ? DVT_COL_EIGHTS : 0) | (base_bytes ? DVT_COL_HAS_BASE : 0));
    p[1] = (uint8_t)(plan->width | plan->patch_width << 4);
    p += DVT_COL_HEAD_BYTES;
    uint64_t base_le = htole64(head->base);
    memcpy(p, &base_le, base_bytes);
    p += base_bytes;
    if (!plan->n_patches)
        return p;
    uint16_t n_le = htole16((uint16_t)plan->n_patches);
    memcpy(p, &n_le, N_PATCHES_BYTES);
    return p + N_PATCHES_BYTES;
}

#define htole8(x) (x)

#define PART uint32_t
#define NAME(x) x##32
#include "wire_cols_part.h"
#undef PART
#undef NAME

#define PART uint64_t
#define NAME(x) x##64
#include "wire_cols_part.h"
#undef PART
#undef NAME

void dvt_col_pack_parts(struct dvt_packer *k, const struct dvt_parts *parts, size_t n)
{
    pack32(k, parts->x, n, parts);
}

/* ---- making the parts of any values ---- */

static uint64_t min_of(const uint64_t *v, size_t n)
{
    uint64_t min = n ? v[0] : 0;
    for (size_t i = 1; i < n; i++)
        min = v[i] < min ? v[i] : min;
    return min;
}

static bool never_falls(const uint64_t *v, size_t n)
{
    unsigned falls = 0;
    for (size_t i = 1; i < n; i++)
        falls |= v[i] < v[i - 1];
    return !falls;
}

/* Replaces v by the steps from value to value; returns all of them or-ed. */
static uint64_t make_steps(uint64_t *v, size_t n, enum dvt_col_kind kind)
{
    uint64_t bits = 0;
    for (size_t i = n; i-- > 1;) {
        v[i] -= v[i - 1];
        if (kind == DVT_COL_SIGNED)
            v[i] = dvt_zigzag(v[i]);
        bits |= v[i];
    }
    if (n)
        v[0] = 0;
    return bits;
}

static uint64_t subtract(uint64_t *v, size_t n, uint64_t base)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= v[i] -= base;
    return bits;
}

void dvt_col_pack(struct dvt_packer *k, uint64_t *v, size_t n, enum dvt_col_form form, unsigned width_min)
{
    struct dvt_parts parts = {.width_min = width_min};
    if (form == DVT_COL_RISING && n > 0) {
        parts.kind = never_falls(v, n) ? DVT_COL_DELTA : DVT_COL_SIGNED;
        parts.base = v[0];
        parts.bits = make_steps(v, n, parts.kind);
    } else {
        parts.base = form == DVT_COL_NEAR ? min_of(v, n) : 0;
        parts.bits = subtract(v, n, parts.base);
    }
    pack64(k, v, n, &parts);
}
