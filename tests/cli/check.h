/* check: what the tests of the command line share. */
#ifndef CHECK_H
#define CHECK_H

#include <CUnit/Basic.h>

#include <string.h>

#define CHECK_CONTAINS(text, part)                                                                           \
    do {                                                                                                     \
        if (!strstr((text), (part))) {                                                                       \
            fprintf(stderr, "\n%s:%d: \"%s\" is not in:\n%s\n", __FILE__, __LINE__, (part), (text));         \
            CU_FAIL("a part is missing");                                                                    \
        } else {                                                                                             \
            CU_PASS("contains");                                                                             \
        }                                                                                                    \
    } while (0)
#define CHECK_LACKS(text, part) CU_ASSERT_PTR_NULL(strstr((text), (part)))

typedef void check_test(void);
struct check_case {
    const char *name;
    check_test *run;
};
#define CASE(f) {#f, f}

static inline int check_run(const char *suite, const struct check_case *cases, size_t n)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite(suite, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        CU_add_test(s, cases[i].name, cases[i].run);
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures ? 1 : 0;
}
#define CHECK_MAIN(suite, cases)                                                                             \
    int main(void)                                                                                           \
    {                                                                                                        \
        return check_run(suite, cases, sizeof cases / sizeof *cases);                                        \
    }

#endif
