/*
 * test_ring: the byte ring between a thread and the sender.
 */
#include <CUnit/Basic.h>
#include <pthread.h>
#include <string.h>

#include "../../shims/core/ring.c" /* hidden in the library */

static _Alignas(8) uint8_t memory[4096];
static struct dvt_ring ring;

static void fresh(uint32_t size, uint32_t soft)
{
    memset(memory, 0xee, sizeof memory);
    dvt_ring_init(&ring, memory, size, soft);
}

static bool put(uint32_t bytes, uint8_t fill)
{
    uint8_t *p = dvt_ring_reserve(&ring, bytes, 5);
    if (!p)
        return false;
    memset(p, fill, bytes);
    dvt_ring_commit(&ring);
    return true;
}

/* The first byte of the next record, or -1. */
static int get(void)
{
    uint64_t pos = dvt_ring_begin(&ring);
    uint32_t kind;
    const uint8_t *p = dvt_ring_next(&ring, &pos, dvt_ring_end(&ring), &kind);
    if (!p)
        return -1;
    CU_ASSERT_EQUAL(kind, 5);
    int v = *p;
    dvt_ring_release(&ring, pos);
    return v;
}

static void test_records_come_out_in_order_for_every_size_and_phase(void)
{
    for (uint32_t bytes = 1; bytes < 100; bytes++) {
        uint8_t in = 0, out = 0;
        fresh(512, 4096);
        for (int i = 0; i < 2000; i++) {
            while (put(bytes, in))
                in++;
            for (int k = 0; k < i % 3 + 1; k++)
                CU_ASSERT_EQUAL_FATAL(get(), out++);
        }
        while (out != in)
            CU_ASSERT_EQUAL_FATAL(get(), out++);
        CU_ASSERT_EQUAL(get(), -1);
    }
}

static void test_a_full_ring_refuses_and_takes_again_after_a_release(void)
{
    int n = 0;
    fresh(256, 4096);
    while (put(24, (uint8_t)n))
        n++;
    CU_ASSERT(n >= 6);
    CU_ASSERT_FALSE(put(24, 0));
    CU_ASSERT_EQUAL(get(), 0);
    CU_ASSERT_EQUAL(get(), 1);
    CU_ASSERT(put(24, 99));
}

static void test_a_record_larger_than_the_ring_is_refused(void)
{
    fresh(256, 4096);
    CU_ASSERT_FALSE(put(256, 1));
    CU_ASSERT_FALSE(put(UINT32_MAX, 1));
    CU_ASSERT(put(200, 1));
}

static void test_a_ring_that_is_emptied_in_time_stays_in_its_first_bytes(void)
{
    fresh(4096, 256);
    for (int i = 0; i < 1000; i++) {
        CU_ASSERT(put(40, (uint8_t)i));
        CU_ASSERT_EQUAL(get(), (uint8_t)i);
    }
    for (size_t i = 512; i < sizeof memory; i++)
        CU_ASSERT_EQUAL_FATAL(memory[i], 0xee);
}

static void test_a_ring_that_started_again_early_still_takes_its_whole_size(void)
{
    int n = 0;
    fresh(4096, 256);
    for (int i = 0; i < 8; i++) { /* to 256: empty, and about to start again */
        CU_ASSERT(put(24, 0));
        CU_ASSERT_EQUAL(get(), 0);
    }
    while (put(24, (uint8_t)n))
        n++;
    CU_ASSERT(n >= 4096 / 32 - 2);
    for (int i = 0; i < n; i++)
        CU_ASSERT_EQUAL_FATAL(get(), (uint8_t)i);
    CU_ASSERT_EQUAL(get(), -1);
}

static void test_a_snapshot_of_the_end_hides_later_records(void)
{
    uint32_t kind;
    fresh(1024, 4096);
    put(8, 1);
    uint64_t end = dvt_ring_end(&ring), pos = dvt_ring_begin(&ring);
    put(8, 2);
    CU_ASSERT_PTR_NOT_NULL(dvt_ring_next(&ring, &pos, end, &kind));
    CU_ASSERT_PTR_NULL(dvt_ring_next(&ring, &pos, end, &kind));
}

static void test_a_shrunk_record_leaves_its_room_to_the_next(void)
{
    fresh(512, 4096);
    for (int i = 0; i < 10; i++) {
        uint8_t *p = dvt_ring_reserve(&ring, 300, 5);
        CU_ASSERT_PTR_NOT_NULL_FATAL(p);
        *p = (uint8_t)i;
        dvt_ring_shrink(&ring, 8);
        dvt_ring_commit(&ring);
    }
    CU_ASSERT_EQUAL(dvt_ring_used(&ring), 160);
    for (int i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(get(), i);
}

static void *produce(void *p)
{
    (void)p;
    for (uint32_t i = 0; i < 200000;) {
        uint32_t bytes = 4 + i % 60;
        uint8_t *at = dvt_ring_reserve(&ring, bytes, 5);
        if (!at)
            continue;
        memset(at, 0, bytes);
        memcpy(at, &i, sizeof i);
        dvt_ring_commit(&ring);
        i++;
    }
    return NULL;
}

static void test_a_producer_and_a_consumer_at_once_lose_nothing(void)
{
    pthread_t t;
    fresh(2048, 512);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, produce, NULL), 0);
    for (uint32_t expect = 0; expect < 200000;) {
        uint64_t pos = dvt_ring_begin(&ring), end = dvt_ring_end(&ring);
        uint32_t kind, got;
        for (const void *p; (p = dvt_ring_next(&ring, &pos, end, &kind)); expect++) {
            memcpy(&got, p, sizeof got);
            CU_ASSERT_EQUAL_FATAL(got, expect);
        }
        dvt_ring_release(&ring, pos);
    }
    pthread_join(t, NULL);
}

int main(void)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite s = CU_add_suite("ring", NULL, NULL);
#define ADD(t) CU_add_test(s, #t, t)
    ADD(test_records_come_out_in_order_for_every_size_and_phase);
    ADD(test_a_full_ring_refuses_and_takes_again_after_a_release);
    ADD(test_a_record_larger_than_the_ring_is_refused);
    ADD(test_a_ring_that_is_emptied_in_time_stays_in_its_first_bytes);
    ADD(test_a_ring_that_started_again_early_still_takes_its_whole_size);
    ADD(test_a_snapshot_of_the_end_hides_later_records);
    ADD(test_a_shrunk_record_leaves_its_room_to_the_next);
    ADD(test_a_producer_and_a_consumer_at_once_lose_nothing);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed != 0;
}
