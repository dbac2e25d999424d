/*
 * The bell's packets: what was put is what is got, and nothing else is taken for a request.
 */
#include <CUnit/Basic.h>

#include <stdlib.h>

#include "../../proto/bell.h"

/* A block of the packet's true size, so that a sanitizer sees an over-read. */
static int get(const char *p, size_t n)
{
    struct dvt_bell b;
    char *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    int rc = dvt_bell_get(copy, n, &b);
    free(copy);
    return rc;
}

static void test_what_was_put_is_got(void)
{
    char packet[DVT_BELL_MAX], path[DVT_BELL_PATH + 1], service[DVT_MAX_SERVICE + 1];
    struct dvt_bell got;
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    memset(service, 's', sizeof service - 1);
    service[sizeof service - 1] = 0;
    const struct dvt_bell wakes[] = {{DVT_BELL_WAKE, "/run/d.sock", "shop"}, {DVT_BELL_WAKE, "/d", ""}, {DVT_BELL_WAKE, path, service}};
    for (size_t i = 0; i < sizeof wakes / sizeof *wakes; i++) {
        size_t n = dvt_bell_put(&wakes[i], packet);
        CU_ASSERT(n > 0 && n <= DVT_BELL_MAX);
        CU_ASSERT_EQUAL_FATAL(dvt_bell_get(packet, n, &got), 0);
        CU_ASSERT_EQUAL(got.op, DVT_BELL_WAKE);
        CU_ASSERT_STRING_EQUAL(got.socket, wakes[i].socket);
        CU_ASSERT_STRING_EQUAL(got.service, wakes[i].service);
    }
    for (const char *op = "rs"; *op; op++) {
        CU_ASSERT_EQUAL(dvt_bell_put(&(struct dvt_bell){.op = *op}, packet), 1);
        CU_ASSERT_EQUAL(dvt_bell_get(packet, 1, &got), 0);
        CU_ASSERT_EQUAL(got.op, *op);
    }
}

static void test_too_long_texts_are_not_put(void)
{
    char packet[DVT_BELL_MAX], text[DVT_MAX_SERVICE + DVT_BELL_PATH];
    memset(text, '/', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CU_ASSERT_EQUAL(dvt_bell_put(&(struct dvt_bell){DVT_BELL_WAKE, text, ""}, packet), 0);
    CU_ASSERT_EQUAL(dvt_bell_put(&(struct dvt_bell){DVT_BELL_WAKE, "/d", text}, packet), 0);
}

static void test_other_packets_are_refused(void)
{
    static const struct {
        size_t n;
        const char *p;
    } bad[] = {{0, ""},        {1, "x"},          {1, "w"},         {2, "r\0"},       {3, "w/d"},        {4, "w/d\0"},
               {5, "w/d\0s"},  {6, "w/d\0s\0" "x"}, {8, "w/d\0s\0x\0"}, {5, "wd\0s\0"},   {3, "w\0\0"},       {4, "\0\0\0\0"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool is_good = bad[i].n == 6; /* without the seventh byte it is a request */
        CU_ASSERT_EQUAL(get(bad[i].p, bad[i].n), is_good ? 0 : DVT_EFORMAT);
    }
    char packet[DVT_BELL_MAX + 8] = "w/";
    memset(packet + 2, 'p', DVT_BELL_PATH);
    CU_ASSERT_EQUAL(get(packet, 2 + DVT_BELL_PATH + 2), DVT_EFORMAT); /* a path longer than an address holds */
}

static void test_random_packets_stay_in_bounds(void)
{
    srandom(3);
    for (int round = 0; round < 20000; round++) {
        char p[16];
        size_t n = (size_t)random() % sizeof p;
        for (size_t i = 0; i < n; i++)
            p[i] = "ws/r\0\0xy"[random() % 8];
        (void)get(p, n);
    }
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("wire_bell", NULL, NULL);
    CU_ADD_TEST(s, test_what_was_put_is_got);
    CU_ADD_TEST(s, test_too_long_texts_are_not_put);
    CU_ADD_TEST(s, test_other_packets_are_refused);
    CU_ADD_TEST(s, test_random_packets_stay_in_bounds);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
