/* inspector, node_signal: what a running Node.js shows of itself, also where it is damaged or cut. */
#include "check.h"

#include "../../cli/inspector.h"
#include "../../cli/elf_symbol.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t known_object = 1, anchor = 2; /* looked up by their names in this program's file */

static void test_only_what_listens_at_the_loopback_is_a_port(void)
{
    unsigned long inode = 0;
    CU_ASSERT_EQUAL(inspector_listening("   0: 0100007F:240D 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
                                        "    0        0 1350499 1 0 100 0 0 10 0",
                                        &inode),
                    9229);
    CU_ASSERT_EQUAL(inode, 1350499);
    CU_ASSERT_EQUAL(inspector_listening("   1: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
                                        "    0        0 1598 1 0 100 0 0 10 0",
                                        &inode),
                    0);
    CU_ASSERT_EQUAL(inspector_listening("   2: 0100007F:240D 0100007F:9000 01 00000000:00000000 00:00000000 00000000 "
                                        "    0        0 7 1 0 100 0 0 10 0",
                                        &inode),
                    0);
    CU_ASSERT_EQUAL(inspector_listening("  sl  local_address rem_address   st", &inode), 0);
}

static void test_path_is_a_uuid_alone(void)
{
    char path[64];
    CU_ASSERT_TRUE(inspector_path("{ \"webSocketDebuggerUrl\": \"ws://127.0.0.1:9229/89213525-7a56\"\n} ]", path, sizeof path));
    CU_ASSERT_STRING_EQUAL(path, "/89213525-7a56");
    CU_ASSERT_FALSE(inspector_path("\"webSocketDebuggerUrl\": \"ws://127.0.0.1:9229/a b\"", path, sizeof path));
    CU_ASSERT_FALSE(inspector_path("\"webSocketDebuggerUrl\": \"ws://127.0.0.1:9229/89213525", path, sizeof path));
    CU_ASSERT_FALSE(inspector_path("HTTP/1.1 404", path, sizeof path));
    CU_ASSERT_FALSE(inspector_path("\"webSocketDebuggerUrl\": \"ws://h/89213525-7a56\"", path, 8));
}

static void test_values_and_exceptions_are_told_apart(void)
{
    char text[16];
    bool threw = true;
    CU_ASSERT_FALSE(inspector_value("{\"method\":\"Runtime.consoleAPICalled\"}", text, sizeof text, &threw));
    CU_ASSERT_TRUE(inspector_value("{\"id\":1,\"result\":{\"result\":{\"type\":\"string\",\"value\":\"good: x\"}}}", text,
                                   sizeof text, &threw));
    CU_ASSERT_FALSE(threw);
    CU_ASSERT_STRING_EQUAL(text, "good: x");
    CU_ASSERT_TRUE(inspector_value("{\"id\":1,\"result\":{\"result\":{},\"exceptionDetails\":{\"exception\":{"
                                   "\"description\":\"Error: no such file anywhere\\n at\"}}}}",
                                   text, sizeof text, &threw));
    CU_ASSERT_TRUE(threw);
    CU_ASSERT_STRING_EQUAL(text, "Error: no such "); /* cut */
    CU_ASSERT_TRUE(inspector_value("{\"id\":1,\"result\":", text, sizeof text, &threw));
    CU_ASSERT_STRING_EQUAL(text, "");
}

static uint8_t *read_self(size_t *ret_n)
{
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CU_ASSERT_FATAL(fd >= 0 && fstat(fd, &st) == 0);
    uint8_t *p = malloc((size_t)st.st_size);
    CU_ASSERT_FATAL(p && read(fd, p, (size_t)st.st_size) == st.st_size);
    close(fd);
    *ret_n = (size_t)st.st_size;
    return p;
}

static void test_a_symbol_is_where_the_linker_put_it(void)
{
    size_t n;
    bool is_relative = false, also = false;
    uint8_t *file = read_self(&n);
    uint64_t known = elf_symbol(file, n, "known_object", &is_relative);
    uint64_t other = elf_symbol(file, n, "anchor", &also);
    CU_ASSERT_EQUAL(known - other, (uint64_t)(uintptr_t)&known_object - (uint64_t)(uintptr_t)&anchor);
    CU_ASSERT_EQUAL(elf_symbol(file, n, "no_such_object", &also), 0);
    free(file);
}

/* Every file cut short, and with bytes of its headers changed: an answer, or none, but nothing beyond it is read. */
static void test_damaged_files_are_read_within_their_bounds(void)
{
    size_t n;
    bool is_relative;
    uint8_t *file = read_self(&n);
    for (size_t keep = 0; keep < n; keep += 1 + n / 64) {
        uint8_t *cut = malloc(keep + 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(cut);
        memcpy(cut, file, keep);
        (void)elf_symbol(cut, keep, "known_object", &is_relative);
        free(cut);
    }
    for (size_t at = 0; at < 64; at++) {
        file[at] ^= 0xFF;
        (void)elf_symbol(file, n, "known_object", &is_relative);
        file[at] ^= 0xFF;
    }
    free(file);
    CU_PASS("nothing beyond was read");
}

static const struct check_case cases[] = {
    CASE(test_only_what_listens_at_the_loopback_is_a_port), CASE(test_path_is_a_uuid_alone),
    CASE(test_values_and_exceptions_are_told_apart),        CASE(test_a_symbol_is_where_the_linker_put_it),
    CASE(test_damaged_files_are_read_within_their_bounds),
};
CHECK_MAIN("inspector", cases)
