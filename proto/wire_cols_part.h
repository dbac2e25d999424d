/*
 * wire_cols_part: how parts of type PART are counted and written. Included by wire_cols_put.c once for each
 * type, with PART and NAME defined: the loops are of one type throughout, which compilers vectorise.
 */

/* How many parts do not fit in 0, 1, 2 and 4 bytes. */
static void NAME(count_over)(const PART *x, size_t n, size_t ret_over[4])
{
    PART over0 = 0, over1 = 0, over2 = 0, over4 = 0;
    for (size_t i = 0; i < n; i++) {
        over0 += x[i] != 0;
        over1 += x[i] >> 8 != 0;
        over2 += x[i] >> 16 != 0;
        over4 += x[i] >> 16 >> 16 != 0;
    }
    ret_over[0] = over0, ret_over[1] = over1, ret_over[2] = over2, ret_over[3] = over4;
}

/* The same among some of the parts, spread evenly. */
static void NAME(count_some)(const PART *x, size_t n, size_t ret_over[4])
{
    PART some[SAMPLE_PARTS];
    for (size_t i = 0; i < SAMPLE_PARTS; i++)
        some[i] = x[i * n / SAMPLE_PARTS];
    NAME(count_over)(some, SAMPLE_PARTS, ret_over);
}

/* The plan for long columns is looked for only if some of the parts say that there is one better than full.
 * */
static struct plan NAME(find_plan)(const PART *x, size_t n, unsigned full, unsigned width_min)
{
    size_t over[4] = {0};
    if (full <= width_min)
        return choose(n, full, over, width_min);
    if (n > 4 * SAMPLE_PARTS) {
        NAME(count_some)(x, n, over);
        struct plan plan = choose(SAMPLE_PARTS, full, over, width_min);
        if (plan.width == full)
            return plan;
    }
    NAME(count_over)(x, n, over);
    return choose(n, full, over, width_min);
}

static void NAME(shift_down)(PART *x, size_t n, unsigned shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] >>= shift;
}

#define WRITE(bits)                                                                                          \
    for (size_t i = 0; i < n; i++) {                                                                         \
        uint##bits##_t le = htole##bits((uint##bits##_t)x[i]);                                               \
        memcpy(out + i * sizeof le, &le, sizeof le);                                                         \
    }

/* The low bytes of each part. */
static void NAME(write)(const PART *x, size_t n, unsigned width, uint8_t *restrict out)
{
    if (width == 1)
        WRITE(8)
    else if (width == 2)
        WRITE(16)
    else if (width == 4)
        WRITE(32)
    else if (width == 8)
        WRITE(64)
}
#undef WRITE

/* From what dvt_zigzag makes of steps back to the steps, whose low bytes are written. */
static void NAME(unfold)(PART *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] >> 1 ^ (0 - (x[i] & 1));
}

/* Which of x[n] are above max; ret_places needs room for one more. Without a branch to mispredict. */
static size_t NAME(find_above)(const PART *x, size_t n, PART max, uint16_t *ret_places, size_t first)
{
    size_t n_found = 0;
    PART bits = 0;
    for (size_t i = 0; i < n; i++)
        bits |= x[i];
    if (bits <= max)
        return 0;
    for (size_t i = 0; i < n; i++) {
        ret_places[n_found] = (uint16_t)(first + i);
        n_found += x[i] > max;
    }
    return n_found;
}

static void NAME(write_patches)(const PART *x, size_t n, const struct plan *plan, bool is_signed,
                                uint8_t *places)
{
    enum { CHUNK = 32 };
    uint16_t found[CHUNK + 1];
    uint8_t *patches = places + 2 * plan->n_patches;
    PART max = (PART)(((uint64_t)1 << 8 * plan->width) - 1);
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t n_here = n - first < CHUNK ? n - first : CHUNK;
        size_t n_found = NAME(find_above)(x + first, n_here, max, found, first);
        for (size_t k = 0; k < n_found; k++) {
            uint16_t place_le = htole16(found[k]);
            memcpy(places, &place_le, sizeof place_le);
            PART patch = x[found[k]];
            if (is_signed)
                NAME(unfold)(&patch, 1);
            NAME(write)(&patch, 1, plan->patch_width, patches);
            places += sizeof place_le;
            patches += plan->patch_width;
        }
    }
}

static void NAME(pack)(struct dvt_packer *k, PART *x, size_t n, const struct dvt_parts *head)
{
    bool is_signed = head->kind == DVT_COL_SIGNED;
    bool eights = !is_signed && head->bits > UINT8_MAX && (head->bits & 7) == 0;
    unsigned shift = eights ? 3 : 0;
    unsigned full = width_for(head->bits >> shift);
    if (shift)
        NAME(shift_down)(x, n, shift);
    struct plan plan = NAME(find_plan)(x, n, full, head->width_min);
    uint8_t *p = pack_head(k, n, head, &plan, shift);
    if (!p)
        return;
    if (plan.n_patches)
        NAME(write_patches)(x, n, &plan, is_signed, p + n * plan.width);
    if (is_signed)
        NAME(unfold)(x, n);
    NAME(write)(x, n, plan.width, p);
}
