/*
 * symbols_heap: how much the heap holds. Layer 5, internal to symbols. libdw gives no account of its memory,
 * so what the heap grew by while it opened or parsed something is taken for its size; other threads' doing
 * blurs it a little. Not cheap (it walks the free lists): for what is done once per file or unit.
 */
#ifndef SYMBOLS_HEAP_H
#define SYMBOLS_HEAP_H

#include <malloc.h>

static inline size_t symbols_heap_now(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static inline size_t symbols_heap_grown(size_t before)
{
    size_t now = symbols_heap_now();
    return now > before ? now - before : 0;
}

#endif
