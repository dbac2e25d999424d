/* config: defaults, flags, the file, and errors that say where and what is valid. */
#include "../../daemon/config.h"
#include "../../daemon/perf_open.h"
#include "edge_check.h"

#include <stdlib.h>

static const struct config_env user = {.home = "/home/u", .uid = 1000};

/* Parses "dovetaild" and the words. */
static int parse(const struct config_env *env, const char *words, struct config *ret, struct dvt_err *err)
{
    char copy[512], *argv[12] = {(char[]){"dovetaild"}}, *save = NULL;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w && argc < 12; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return config_parse(argc, argv, env, ret, err);
}

static void expect_error(const char *words, const char *text)
{
    struct config c;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(parse(&user, words, &c, &err), DVT_EINVAL);
    if (!strstr(err.text, text))
        fprintf(stderr, "'%s' gave '%s', not '%s'\n", words, err.text, text);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
}

static void test_defaults_are_those_of_the_manual(void)
{
    struct config c;
    CU_ASSERT_EQUAL_FATAL(parse(&user, "", &c, NULL), 0);
    CU_ASSERT_TRUE(c.hz == 99 && c.stack_bytes == 8192 && c.max_threads == 10000 &&
                   c.budget_bytes == 2ull << 30);
    CU_ASSERT_STRING_EQUAL(c.event, "cpu-clock");
    CU_ASSERT_EQUAL(c.native, PERF_NATIVE_DWARF);
    CU_ASSERT_STRING_EQUAL(c.store, "/home/u/.local/state/dovetail");
    CU_ASSERT_STRING_EQUAL(c.socket, "/tmp/dovetail-1000/control.sock");
}

static void test_default_places_follow_user_and_environment(void)
{
    struct config c;
    const struct config_env root = {.home = "/root", .xdg_state = "/x", .xdg_runtime = "/y", .uid = 0};
    const struct config_env xdg = {.home = "/home/u", .xdg_state = "/x", .xdg_runtime = "/y", .uid = 5};
    CU_ASSERT_EQUAL_FATAL(parse(&root, "", &c, NULL), 0);
    CU_ASSERT_STRING_EQUAL(c.store, "/var/lib/dovetail");
    CU_ASSERT_STRING_EQUAL(c.socket, "/run/dovetail/control.sock");
    CU_ASSERT_EQUAL_FATAL(parse(&xdg, "", &c, NULL), 0);
    CU_ASSERT_STRING_EQUAL(c.store, "/x/dovetail");
    CU_ASSERT_STRING_EQUAL(c.socket, "/y/dovetail/control.sock");
    struct config_env told = xdg;
    told.socket = "/told/c.sock";
    CU_ASSERT_EQUAL_FATAL(parse(&told, "", &c, NULL), 0);
    CU_ASSERT_STRING_EQUAL(c.socket, "/told/c.sock");
    const struct config_env nobody = {.uid = 5};
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(parse(&nobody, "", &c, &err), DVT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "--store"));
}

static void test_flags_are_taken_in_both_forms(void)
{
    struct config c;
    CU_ASSERT_EQUAL_FATAL(parse(&user, "--hz 250 --store=/s --socket /k/c.sock --native=fp -v --force", &c,
                                NULL), 0);
    CU_ASSERT_TRUE(c.hz == 250 && c.native == PERF_NATIVE_FP && c.verbose == 1 && c.force);
    CU_ASSERT_STRING_EQUAL(c.store, "/s");
    CU_ASSERT_STRING_EQUAL(c.socket, "/k/c.sock");
    CU_ASSERT_EQUAL_FATAL(parse(&user, "--exit-with 7 --budget 512M --stack-bytes 4096 --foreground", &c,
                                NULL), 0);
    CU_ASSERT_TRUE(c.exit_with == 7 && c.budget_bytes == 512ull << 20 && c.stack_bytes == 4096);
}

static void test_rate_above_the_limit_needs_force(void)
{
    struct config c;
    expect_error("--hz 10001", "hz: 10001 is above 10000");
    expect_error("--hz 10001", "--force");
    CU_ASSERT_EQUAL(parse(&user, "--hz 10000", &c, NULL), 0);
    CU_ASSERT_EQUAL(parse(&user, "--hz 10001 --force", &c, NULL), 0);
    expect_error("--hz 0", "is not a number from 1");
    expect_error("--hz -5", "is not a number from 1");
    expect_error("--hz 99x", "is not a number from 1");
    expect_error("--hz 99999999999999999999", "is not a number from 1");
}

static void test_wrong_flags_are_named(void)
{
    expect_error("--frobnicate", "unknown option '--frobnicate'");
    expect_error("store", "unknown option 'store'");
    expect_error("--store", "--store needs DIR");
    expect_error("--native maybe", "dwarf, fp or leaf");
    expect_error("--budget 5Q", "512M");
    expect_error("--stack-bytes 1001", "multiple of 8");
    expect_error("--force=perhaps", "not yes or no");
}

static void test_socket_path_leaves_room_for_the_message_socket(void)
{
    char words[300] = "--socket /";
    memset(words + 10, 'a', 102);
    expect_error(words, "1 to 102 bytes");
}

static void test_relative_paths_are_of_the_working_directory(void)
{
    struct config c;
    const struct config_env env = {.home = "/home/u", .cwd = "/srv/here", .uid = 5};
    CU_ASSERT_EQUAL_FATAL(parse(&env, "--store s --socket run/c.sock", &c, NULL), 0);
    CU_ASSERT_STRING_EQUAL(c.store, "/srv/here/s");
    CU_ASSERT_STRING_EQUAL(c.socket, "/srv/here/run/c.sock");
    char deep[200];
    struct config_env far = env;
    struct dvt_err err = {0};
    memset(deep, 'd', sizeof deep);
    deep[0] = '/';
    deep[95] = 0;
    far.cwd = deep;
    CU_ASSERT_EQUAL(parse(&far, "--socket run/c.sock", &c, &err), DVT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "socket"));
}

static void test_sizes_are_read_with_units(void)
{
    uint64_t v = 1;
    CU_ASSERT_TRUE(config_parse_size("0", &v) == 0 && v == 0);
    CU_ASSERT_TRUE(config_parse_size("65536", &v) == 0 && v == 65536);
    CU_ASSERT_TRUE(config_parse_size("3k", &v) == 0 && v == 3072);
    CU_ASSERT_TRUE(config_parse_size("2G", &v) == 0 && v == 2ull << 30);
    CU_ASSERT_TRUE(config_parse_size("1MiB", &v) == 0 && v == 1 << 20);
    const char *bad[] = {"", "-1", "G", "1GG", "99999999999T", "1 G", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CU_ASSERT_EQUAL(config_parse_size(bad[i], &v), DVT_EINVAL);
}

static void write_file(char path[32], const char *text)
{
    snprintf(path, 32, "/tmp/dvt-config-XXXXXX");
    int fd = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void test_file_is_read_and_flags_win(void)
{
    struct config c;
    char path[32], words[128];
    write_file(path, "# a comment\n\n  hz = 49 # why not\nstore=/from/file\nevent = cycles\nforce = no\n");
    snprintf(words, sizeof words, "--hz 50 --config %s", path);
    CU_ASSERT_EQUAL_FATAL(parse(&user, words, &c, NULL), 0);
    CU_ASSERT_EQUAL(c.hz, 50);
    CU_ASSERT_STRING_EQUAL(c.store, "/from/file");
    CU_ASSERT_STRING_EQUAL(c.event, "cycles");
    unlink(path);
}

static void test_errors_of_the_file_say_where(void)
{
    static const char *const texts[][2] = {
        {"hz = 9\nhertz = 9\n", ":2: unknown name 'hertz'; valid: store socket hz event budget"},
        {"hz = many\n", ":1: hz: 'many' is not a number"},
        {"\n\nstore\n", ":3: not of the form"},
        {"config = /etc/other\n", ":1: unknown name 'config'"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char path[32], words[64];
        write_file(path, texts[i][0]);
        snprintf(words, sizeof words, "--config %s", path);
        expect_error(words, texts[i][1]);
        unlink(path);
    }
    struct config c;
    struct dvt_err err = {0};
    CU_ASSERT_EQUAL(parse(&user, "--config /no/such/file", &c, &err), DVT_EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/file"));
}

static void test_help_lists_every_option(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    config_print_help(f);
    fclose(f);
    const char *names[] = {"--store",       "--socket",      "--config",       "--hz",
                           "--event",       "--budget",      "--socket-group", "--native",
                           "--stack-bytes", "--force",       "--exit-with",    "--verbose",
                           "--version",     "--max-threads", "exit codes",     "example"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, names[i]));
    free(text);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"defaults are those of the manual", test_defaults_are_those_of_the_manual},
        {"default places follow user and environment", test_default_places_follow_user_and_environment},
        {"flags are taken in both forms", test_flags_are_taken_in_both_forms},
        {"a rate above the limit needs --force", test_rate_above_the_limit_needs_force},
        {"wrong flags are named", test_wrong_flags_are_named},
        {"the socket path leaves room for the message socket",
         test_socket_path_leaves_room_for_the_message_socket},
        {"relative paths are of the working directory", test_relative_paths_are_of_the_working_directory},
        {"sizes are read with units", test_sizes_are_read_with_units},
        {"the file is read, and flags win", test_file_is_read_and_flags_win},
        {"errors of the file say where", test_errors_of_the_file_say_where},
        {"help lists every option", test_help_lists_every_option},
    };
    return EDGE_RUN("config", tests);
}
