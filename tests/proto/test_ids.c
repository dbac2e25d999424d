/* ids: hex forms and the W3C rules for traceparent. */
#include <CUnit/Basic.h>
#include "../../proto/err.h"
#include "../../proto/ids.h"

#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define GOOD "00-" TRACE "-" SPAN "-01"

static struct dvt_trace_id trace;
static struct dvt_span_id span;
static uint8_t flags;

static int parse(const char *text)
{
    return dvt_traceparent_parse(text, strlen(text), &trace, &span, &flags);
}

static void test_ids_survive_their_text(void)
{
    char text[DVT_TRACE_HEX + 1], short_text[DVT_SPAN_HEX + 1];
    CU_ASSERT_EQUAL(dvt_trace_id_parse(TRACE, DVT_TRACE_HEX, &trace), 0);
    CU_ASSERT(trace.b[0] == 0x4b && trace.b[15] == 0x36);
    dvt_trace_id_format(&trace, text);
    CU_ASSERT_STRING_EQUAL(text, TRACE);
    CU_ASSERT_EQUAL(dvt_span_id_parse("00F067AA0ba902b7", DVT_SPAN_HEX, &span), 0); /* any case */
    dvt_span_id_format(&span, short_text);
    CU_ASSERT_STRING_EQUAL(short_text, SPAN);
}

static void test_ids_of_wrong_length_or_digits_are_refused_and_leave_the_result(void)
{
    memset(&trace, 7, sizeof trace);
    CU_ASSERT_EQUAL(dvt_trace_id_parse(TRACE, DVT_TRACE_HEX - 1, &trace), DVT_EINVAL);
    CU_ASSERT_EQUAL(dvt_trace_id_parse(TRACE "0", DVT_TRACE_HEX + 1, &trace), DVT_EINVAL);
    CU_ASSERT_EQUAL(dvt_trace_id_parse("4bf92f3577b34da6a3ce929d0e0e473g", DVT_TRACE_HEX, &trace),
                    DVT_EINVAL);
    CU_ASSERT_EQUAL(dvt_trace_id_parse("4bf92f3577b34da6a3ce929d0e0e473 ", DVT_TRACE_HEX, &trace),
                    DVT_EINVAL);
    CU_ASSERT_EQUAL(trace.b[0], 7);
    CU_ASSERT_EQUAL(dvt_span_id_parse("", 0, &span), DVT_EINVAL);
}

static void test_zero_and_order_are_told(void)
{
    struct dvt_trace_id a = {{0}}, b = {{0}};
    CU_ASSERT(dvt_trace_id_is_zero(&a));
    b.b[15] = 1;
    CU_ASSERT(!dvt_trace_id_is_zero(&b));
    CU_ASSERT(dvt_trace_id_cmp(&a, &b) < 0 && dvt_trace_id_cmp(&b, &a) > 0 && dvt_trace_id_cmp(&a, &a) == 0);
    CU_ASSERT(dvt_span_id_is_zero(&(struct dvt_span_id){{0}}));
    CU_ASSERT(!dvt_span_id_is_zero(&(struct dvt_span_id){{0, 0, 0, 1}}));
}

static void test_traceparent_is_read_and_written(void)
{
    char text[DVT_TRACEPARENT_LEN + 1];
    CU_ASSERT_EQUAL(parse(GOOD), 0);
    CU_ASSERT(trace.b[0] == 0x4b && span.b[7] == 0xb7 && flags == 1);
    dvt_traceparent_format(&trace, &span, flags, text);
    CU_ASSERT_STRING_EQUAL(text, GOOD);
    CU_ASSERT_EQUAL(parse("00-" TRACE "-" SPAN "-00"), 0);
    CU_ASSERT_EQUAL(flags, 0);
}

static void test_traceparent_of_a_later_version_is_read_by_its_first_fields(void)
{
    CU_ASSERT_EQUAL(parse("01-" TRACE "-" SPAN "-01"), 0);
    CU_ASSERT_EQUAL(parse("cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like"), 0);
    CU_ASSERT_EQUAL(parse("cc-" TRACE "-" SPAN "-01.what-the-future-will-be-like"), DVT_EINVAL);
    CU_ASSERT_EQUAL(parse("cc-" TRACE "-" SPAN "-01what"), DVT_EINVAL);
}

static void test_traceparent_against_the_rules_is_refused(void)
{
    static const char *const bad[] = {
        "",
        "00",
        "ff-" TRACE "-" SPAN "-01", /* the version that never is */
        "FF-" TRACE "-" SPAN "-01",
        "0g-" TRACE "-" SPAN "-01",
        GOOD "-", /* version 00 has exactly 55 bytes */
        GOOD "-more",
        GOOD " ",
        " " GOOD,
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN,
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", /* upper case */
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-" TRACE "-" SPAN "-0A",
        "00-00000000000000000000000000000000-" SPAN "-01", /* zero ids */
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "0-01", /* shifted by one */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_EQUAL(parse(bad[i]), DVT_EINVAL);
}

static void test_traceparent_is_not_read_beyond_its_length(void)
{
    for (size_t n = 0; n < DVT_TRACEPARENT_LEN; n++)
        CU_ASSERT_EQUAL(dvt_traceparent_parse(GOOD, n, &trace, &span, &flags), DVT_EINVAL);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("ids", NULL, NULL);
#define T(f) CU_add_test(s, #f, f)
    T(test_ids_survive_their_text);
    T(test_ids_of_wrong_length_or_digits_are_refused_and_leave_the_result);
    T(test_zero_and_order_are_told);
    T(test_traceparent_is_read_and_written);
    T(test_traceparent_of_a_later_version_is_read_by_its_first_fields);
    T(test_traceparent_against_the_rules_is_refused);
    T(test_traceparent_is_not_read_beyond_its_length);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
