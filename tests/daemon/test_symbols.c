/*
 * symbols on real samples: programs whose stacks are known, and a CPython. Skipped (77) only where perf may
 * not be used.
 */
#include <CUnit/Basic.h>

#include <sys/mman.h>

#include "../../daemon/symbols.h"
#include "victim_samples.h"

enum { N = 200, STACK_BYTES = 8192, MAX = 512 };

struct chain { /* one resolved sample */
    struct symbols_frame frames[MAX];
    uint32_t n, above_eval;
    bool truncated;
};

static struct victim victim;
static bool kernel_is_allowed; /* perf_event_paranoid above 1 without privilege: user code only */
static struct symbols *symbols;

static int set_up(void)
{
    symbols = symbols_new();
    return symbols == NULL;
}

static int tear_down(void)
{
    symbols_free(symbols);
    return 0;
}

static void start_bytes(const char *program, const char *what, bool second_thread, uint32_t stack_bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/%s", BINARY_DIR, program);
    char *argv[] = {path, (char *)(uintptr_t)what, NULL};
    victim_start(&victim, argv, stack_bytes, kernel_is_allowed, second_thread, N);
    victim_stop(&victim); /* everything must work after the process is gone */
    CU_ASSERT_EQUAL(victim.n_samples, N);
    CU_ASSERT_PTR_NOT_NULL(victim.process.map);
}

static void start(const char *program, const char *what)
{
    start_bytes(program, what, false, STACK_BYTES);
}

static struct chain resolve(const struct sample *s)
{
    static struct chain c;
    c.n = symbols_resolve(symbols, &victim.process, s, c.frames, MAX, &c.above_eval, &c.truncated);
    return c;
}

/* libc's own functions have names only where its debug information is installed: "libc" stands for any of
 * them. */
static bool is_called(const struct symbols_frame *f, const char *name)
{
    return !strcmp(name, "libc") ? !strcmp(f->module, "libc.so.6") : !strcmp(f->name, name);
}

/* Do the frames end with names[], leaf first? */
static bool ends_with(const struct chain *c, const char *const *names, uint32_t n)
{
    bool same = c->n >= n;
    for (uint32_t i = 0; same && i < n; i++)
        same = is_called(&c->frames[c->n - n + i], names[i]);
    return same;
}

/* How many samples have a whole chain ending with names. */
static uint32_t count_chains(const char *const *names, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        count += !c.truncated && ends_with(&c, names, n);
    }
    return count;
}

#define ASSERT_CHAINS(...)                                                                                   \
    do {                                                                                                     \
        static const char *const names[] = {__VA_ARGS__};                                                    \
        CU_ASSERT(count_chains(names, sizeof names / sizeof *names) * 100 >= N * 98u);                       \
    } while (0)

static const struct symbols_frame *find_frame(const struct chain *c, const char *name)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (!strcmp(c->frames[i].name, name))
            return &c->frames[i];
    }
    return NULL;
}

static void test_chain_with_inlined_functions_reaches_start(void)
{
    start("victim", "chain");
    ASSERT_CHAINS("holder", "caller", "burn", "main", "libc", "__libc_start_main", "_start");
    uint32_t inlined = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        const struct symbols_frame *f = find_frame(&c, "innermost"), *g = find_frame(&c, "inlined");
        inlined += f && g && g == f + 1 && f->kind == DVT_FRAME_INLINED && g->kind == DVT_FRAME_INLINED &&
                   strstr(f->file, "victim.c") && f->line && f->ip == g->ip && !strcmp(f->module, "victim");
    }
    CU_ASSERT(inlined * 100 >= N * 98u);
    victim_free(&victim);
}

static void test_chain_without_debug_information_has_symbol_names(void)
{
    start("victim_nodebug", "chain");
    ASSERT_CHAINS("caller", "burn", "main", "libc", "__libc_start_main", "_start");
    victim_free(&victim);
}

/* No names, but each function under one address, and the chain is as long. */
static void test_stripped_program_has_module_and_function_address(void)
{
    start("victim_stripped", "chain");
    struct chain first = resolve(victim.samples[N - 1]);
    uint32_t same = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        const char *leaf = c.n >= 7 ? c.frames[c.n - 7].name : "";
        same += !c.truncated && is_called(&c.frames[c.n - 2], "__libc_start_main") &&
                !strncmp(leaf, "victim_stripped+0x", 18) && leaf == first.frames[first.n - 7].name;
    }
    CU_ASSERT(same * 100 >= N * 95u);
    victim_free(&victim);
}

static void test_mangled_names_are_readable(void)
{
    start("victim", "cxx");
    ASSERT_CHAINS("shop::Order::discount(int)", "shop::tax", "main", "libc", "__libc_start_main", "_start");
    victim_free(&victim);
}

static void test_chain_through_signal_handler_reaches_start(void)
{
    start("victim", "signal");
    uint32_t good = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        const struct symbols_frame *handler = find_frame(&c, "on_signal"), *f = find_frame(&c, "[signal]");
        good +=
            !c.truncated && handler && f == handler + 1 && find_frame(&c, "main") && find_frame(&c, "_start");
    }
    CU_ASSERT(good * 100 >= N * 98u);
    victim_free(&victim);
}

static void test_chain_through_vdso_reaches_start(void)
{
    start("victim", "clock");
    uint32_t good = 0, in_vdso = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        good += !c.truncated && find_frame(&c, "read_clock") && find_frame(&c, "_start");
        for (uint32_t k = 0; k < c.n; k++)
            in_vdso += !strcmp(c.frames[k].module, "[vdso]") && !strcmp(c.frames[k].name, "clock_gettime");
    }
    CU_ASSERT(good * 100 >= N * 98u);
    CU_ASSERT(in_vdso * 100 >= N * 30u);
    victim_free(&victim);
}

static void test_chain_of_a_thread_reaches_its_entry(void)
{
    start_bytes("victim", "thread", true, STACK_BYTES);
    uint32_t good = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        good += !c.truncated && find_frame(&c, "on_thread") && is_called(&c.frames[c.n - 1], "libc");
    }
    CU_ASSERT(good * 100 >= N * 98u);
    victim_free(&victim);
}

static void test_kernel_frames_come_before_the_call_that_entered(void)
{
    start("victim", "calls");
    uint32_t in_kernel = 0, good = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        uint32_t k = 0;
        while (k < c.n && c.frames[k].kind == DVT_FRAME_KERNEL)
            k++;
        in_kernel += k > 0;
        good +=
            k > 0 && !strcmp(c.frames[0].module, "kernel") && find_frame(&c, "make_calls") && !c.truncated;
        for (; k < c.n; k++)
            CU_ASSERT_NOT_EQUAL(c.frames[k].kind, DVT_FRAME_KERNEL);
    }
    CU_ASSERT(in_kernel > N / 4);
    CU_ASSERT(good * 100 >= in_kernel * 98);
    victim_free(&victim);
}

static void test_stack_copy_too_small_is_truncated_not_guessed(void)
{
    start_bytes("victim", "deep", false, 512);
    uint32_t good = 0;
    for (uint32_t i = 0; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        good += c.truncated && find_frame(&c, "recurse") && !find_frame(&c, "main");
    }
    CU_ASSERT(good * 100 >= N * 98u);
    victim_free(&victim);
}

static void test_more_frames_than_room_are_truncated(void)
{
    start("victim", "deep");
    struct chain c = resolve(victim.samples[N - 1]);
    bool truncated;
    uint32_t above, n;
    CU_ASSERT_FALSE(c.truncated);
    n = symbols_resolve(symbols, &victim.process, victim.samples[N - 1], c.frames, 10, &above, &truncated);
    CU_ASSERT_EQUAL(n, 10);
    CU_ASSERT_TRUE(truncated);
    victim_free(&victim);
}

static void test_without_stack_bytes_only_the_leaf_is_named(void)
{
    start("victim", "chain");
    uint64_t ips[] = {victim.samples[N - 1]->regs[8], victim.samples[N - 1]->regs[8]};
    struct sample leaf = {.ips = ips, .n_ips = 2};
    struct chain c = resolve(&leaf);
    CU_ASSERT_PTR_NOT_NULL(find_frame(&c, "holder"));
    CU_ASSERT_PTR_NULL(find_frame(&c, "caller"));
    CU_ASSERT_TRUE(c.truncated);
    victim_free(&victim);
}

static void test_registers_of_no_user_context_give_no_native_frames(void)
{
    uint64_t regs[SAMPLE_MAX_REGS];
    struct process process = {0};
    struct sample s = {.regs = regs, .n_regs = (uint32_t)__builtin_popcountll(PERF_OPEN_REGS_MASK)};
    struct symbols_frame frames[MAX];
    uint32_t above;
    bool truncated;
    memset(regs, 0xff, sizeof regs);
    CU_ASSERT_EQUAL(symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated), 0);
    CU_ASSERT_TRUE(truncated);
    memset(regs, 0, sizeof regs);
    CU_ASSERT_EQUAL(symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated), 0);
}

static void test_context_markers_are_not_frames(void)
{
    uint64_t ips[] = {(uint64_t)PERF_CONTEXT_KERNEL, (uint64_t)PERF_CONTEXT_USER};
    struct process process = {0};
    struct sample s = {.ips = ips, .n_ips = 2, .n_kernel = 2};
    struct symbols_frame frames[MAX];
    uint32_t above;
    bool truncated;
    CU_ASSERT_EQUAL(symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated), 0);
}

static bool is_relocated(pid_t pid)
{
    char path[64];
    uint16_t type = 0;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    FILE *f = fopen(path, "re");
    if (f && !fseek(f, 16, SEEK_SET) && fread(&type, sizeof type, 1, f) != 1)
        type = 0;
    if (f)
        fclose(f);
    return type == 3; /* ET_DYN */
}

/* Where the interpreter's evaluation function lies, by nm; false if the program does not hold it itself. */
static bool find_eval(pid_t pid, uint64_t *ret_lo, uint64_t *ret_hi)
{
    char command[256], path[64];
    unsigned long long addr = 0, size = 0, base = 0;
    snprintf(command, sizeof command, "nm -D -S /proc/%d/exe | grep ' _PyEval_EvalFrameDefault$'", pid);
    FILE *f = popen(command, "re");
    bool found = f && fscanf(f, "%llx %llx", &addr, &size) == 2;
    if (f)
        pclose(f);
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    f = fopen(path, "re");
    if (is_relocated(pid) && (!f || fscanf(f, "%llx", &base) != 1))
        found = false;
    if (f)
        fclose(f);
    *ret_lo = base + addr;
    *ret_hi = base + addr + size;
    return found;
}

/* Is frames[above_eval] the evaluation function's first (it or what is inlined in it), and none before it? */
static bool above_eval_is_right(const struct chain *c)
{
    uint32_t i = c->above_eval;
    while (i < c->n && c->frames[i].kind == DVT_FRAME_INLINED)
        i++;
    if (i == c->n || strcmp(c->frames[i].name, "_PyEval_EvalFrameDefault"))
        return false;
    for (i = 0; i < c->above_eval; i++) {
        if (!strcmp(c->frames[i].name, "_PyEval_EvalFrameDefault"))
            return false;
    }
    return true;
}

static void test_cpython_chain_shows_evaluation_and_counts_above_it(void)
{
    enum { START_UP = 200, ALL = 600 };
    char *argv[] = {"/usr/bin/python3", "-S", "-E", "-c",
                    "def f(n):\n  return sum(len(repr(i)) for i in range(n))\nwhile True: f(1000)", NULL};
    victim_start(&victim, argv, 16384, kernel_is_allowed, false, ALL);
    bool has_eval = find_eval(victim.pid, &victim.process.eval_lo, &victim.process.eval_hi);
    victim_stop(&victim);
    CU_ASSERT_TRUE(has_eval);
    CU_ASSERT_EQUAL(victim.n_samples, ALL);
    uint32_t complete = 0, right = 0;
    for (uint32_t i = START_UP; i < victim.n_samples; i++) {
        struct chain c = resolve(victim.samples[i]);
        complete += !c.truncated && find_frame(&c, "Py_BytesMain");
        right += above_eval_is_right(&c);
    }
    CU_ASSERT(complete * 100 >= (ALL - START_UP) * 98u);
    CU_ASSERT(right * 100 >= (ALL - START_UP) * 98u);
    victim_free(&victim);
}

/* A compiler at run time has no file: the range told for it says where managed frames begin, or that there is a walker. */
static void test_code_without_a_file_in_the_told_range_is_where_managed_frames_begin(void)
{
    enum { BYTES = 1 << 16 };
    uint8_t *code = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(code, MAP_FAILED);
    uint64_t lo = (uint64_t)(uintptr_t)code, ips[] = {lo + 100};
    struct process process = {0};
    struct sample s = {.ips = ips, .n_ips = 1};
    struct symbols_frame frames[MAX];
    uint32_t above;
    bool truncated;
    CU_ASSERT_EQUAL_FATAL(procmap_new((uint32_t)getpid(), &process.map, NULL), 0);
    CU_ASSERT_EQUAL(symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated), 1);
    CU_ASSERT_EQUAL(above, 1);
    process.eval_lo = lo + 101;
    process.eval_hi = lo + BYTES;
    symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated);
    CU_ASSERT_EQUAL(above, 1);
    process.eval_lo = lo + 100;
    symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated);
    CU_ASSERT_EQUAL(above, 0);
    process.eval_lo = process.eval_hi = 0;
    process.has_walker = true;
    symbols_resolve(symbols, &process, &s, frames, MAX, &above, &truncated);
    CU_ASSERT_EQUAL(above, 0);
    procmap_free(process.map);
    munmap(code, BYTES);
}

/* Above the cap files are forgotten, and read again when asked for: the names stay the same, and old ones
 * stay valid. */
static void test_above_the_cap_files_are_forgotten_and_read_again(void)
{
    start("victim", "chain");
    struct chain before = resolve(victim.samples[N - 1]);
    uint64_t bytes = symbols_bytes(symbols);
    symbols_set_cap(symbols, 1);
    resolve(&(struct sample){0});
    CU_ASSERT(symbols_bytes(symbols) < bytes);
    struct chain after = resolve(victim.samples[N - 1]);
    CU_ASSERT_EQUAL_FATAL(after.n, before.n);
    for (uint32_t i = 0; i < after.n; i++)
        CU_ASSERT_PTR_EQUAL(after.frames[i].name, before.frames[i].name);
    victim_free(&victim);
}

static int perf_errno(bool kernel)
{
    int fd = victim_open_event(0, STACK_BYTES, kernel, false), e = errno;
    if (fd < 0)
        return e;
    close(fd);
    return 0;
}

int main(void)
{
    if (perf_errno(false)) {
        fprintf(stderr, "skipped: perf events of own code do not open here: %s\n",
                strerror(perf_errno(false)));
        return 77;
    }
    kernel_is_allowed = perf_errno(true) == 0;
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("symbols", set_up, tear_down);
    CU_ADD_TEST(s, test_chain_with_inlined_functions_reaches_start);
    CU_ADD_TEST(s, test_chain_without_debug_information_has_symbol_names);
    CU_ADD_TEST(s, test_stripped_program_has_module_and_function_address);
    CU_ADD_TEST(s, test_mangled_names_are_readable);
    CU_ADD_TEST(s, test_chain_through_signal_handler_reaches_start);
    CU_ADD_TEST(s, test_chain_through_vdso_reaches_start);
    CU_ADD_TEST(s, test_chain_of_a_thread_reaches_its_entry);
    if (kernel_is_allowed)
        CU_ADD_TEST(s, test_kernel_frames_come_before_the_call_that_entered);
    else
        fprintf(stderr, "without kernel frames: perf events of kernel code do not open here\n");
    CU_ADD_TEST(s, test_stack_copy_too_small_is_truncated_not_guessed);
    CU_ADD_TEST(s, test_more_frames_than_room_are_truncated);
    CU_ADD_TEST(s, test_without_stack_bytes_only_the_leaf_is_named);
    CU_ADD_TEST(s, test_registers_of_no_user_context_give_no_native_frames);
    CU_ADD_TEST(s, test_context_markers_are_not_frames);
    CU_ADD_TEST(s, test_cpython_chain_shows_evaluation_and_counts_above_it);
    CU_ADD_TEST(s, test_code_without_a_file_in_the_told_range_is_where_managed_frames_begin);
    CU_ADD_TEST(s, test_above_the_cap_files_are_forgotten_and_read_again);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
