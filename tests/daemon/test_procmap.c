/* procmap on real processes: this one and children that map, unmap, replace and die. */
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../daemon/procmap.h"

enum { PAGE = 4096, SECOND = 1000000000 };

static char dir[] = "/tmp/test_procmap.XXXXXX";

static void path_in_dir(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", dir, name);
}

static void write_file(const char *path, char fill)
{
    char page[PAGE];
    memset(page, fill, sizeof page);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CU_ASSERT_EQUAL(write(fd, page, sizeof page), PAGE);
    close(fd);
}

/* Maps a page of the file executable, at addr if not NULL. */
static void *map_file(const char *path, void *addr)
{
    int fd = open(path, O_RDONLY);
    void *p = mmap(addr, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | (addr ? MAP_FIXED : 0), fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t addr_of(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static struct procmap *new_map(pid_t pid)
{
    struct procmap *m = NULL;
    struct dvt_err err;
    CU_ASSERT_EQUAL_FATAL(procmap_new((uint32_t)pid, &m, &err), 0);
    return m;
}

static char first_byte(struct procmap *m, uint32_t file)
{
    char c = 0;
    CU_ASSERT_EQUAL(pread(procmap_fd(m, file), &c, 1, 0), 1);
    return c;
}

/* A child that has done what it was made for and waits to be killed. */
static pid_t idle_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_own_function_lies_in_own_program(void)
{
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    CU_ASSERT_TRUE_FATAL(
        procmap_find(m, addr_of((void *)(uintptr_t)test_own_function_lies_in_own_program), &e));
    CU_ASSERT_TRUE(e.executable);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.path, "test_procmap"));
    CU_ASSERT(procmap_fd(m, e.file) >= 0);
    CU_ASSERT_FALSE(procmap_find(m, 0, &e));
    procmap_free(m);
}

static void test_two_processes_share_a_file(void)
{
    pid_t pid = idle_child();
    struct procmap *a = new_map(getpid()), *b = new_map(pid);
    struct procmap_entry x, y;
    uint64_t addr = addr_of((void *)(uintptr_t)new_map);
    CU_ASSERT_TRUE_FATAL(procmap_find(a, addr, &x) && procmap_find(b, addr, &y));
    CU_ASSERT_NOT_EQUAL(procmap_fd_id(a, x.file), 0);
    CU_ASSERT_EQUAL(procmap_fd_id(a, x.file), procmap_fd_id(b, y.file));
    CU_ASSERT_EQUAL(procmap_fd(a, x.file), procmap_fd(b, y.file));
    procmap_free(a);
    CU_ASSERT(fcntl(procmap_fd(b, y.file), F_GETFD) >= 0); /* still held for b */
    procmap_free(b);
    end_child(pid);
}

static void test_map_and_files_outlive_the_process(void)
{
    char path[128];
    path_in_dir(path, "outlive");
    write_file(path, 'a');
    void *p = map_file(path, NULL);
    pid_t pid = idle_child();
    struct procmap *m = new_map(pid);
    struct procmap_entry e;
    end_child(pid);
    unlink(path);
    CU_ASSERT_FALSE(procmap_refresh(m, 1, true, SECOND));
    CU_ASSERT_TRUE_FATAL(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_STRING_EQUAL(e.path, path);
    CU_ASSERT_EQUAL(first_byte(m, e.file), 'a');
    procmap_free(m);
    munmap(p, PAGE);
}

/* A program replaced on disk while it runs: the new file's symbols would be wrong. */
static void test_replaced_file_is_the_old_one_or_unknown(void)
{
    char path[128];
    path_in_dir(path, "replaced");
    write_file(path, 'a');
    void *p = map_file(path, NULL);
    unlink(path);
    write_file(path, 'b');
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    CU_ASSERT_TRUE_FATAL(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_STRING_EQUAL(e.path, path);
    if (procmap_fd(m, e.file) >= 0)
        CU_ASSERT_EQUAL(first_byte(m, e.file), 'a');
    procmap_free(m);
    munmap(p, PAGE);
    unlink(path);
}

static void test_new_mapping_is_seen_when_asked_for_again_after_100_ms(void)
{
    char path[128];
    path_in_dir(path, "late");
    write_file(path, 'c');
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    CU_ASSERT_TRUE(procmap_refresh(m, 1, false, SECOND)); /* reads: nothing lies at 1 */
    void *p = map_file(path, NULL);
    CU_ASSERT_TRUE(procmap_refresh(m, addr_of(p), false, SECOND + 99999999));
    CU_ASSERT_FALSE(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_TRUE(procmap_refresh(m, addr_of(p), false, SECOND + 100000000));
    CU_ASSERT_TRUE(procmap_find(m, addr_of(p), &e));
    procmap_free(m);
    munmap(p, PAGE);
    unlink(path);
}

static void test_unmapped_range_stays_and_replaced_one_is_cut(void)
{
    char path[128], other[128];
    path_in_dir(path, "first");
    path_in_dir(other, "second");
    write_file(path, 'a');
    write_file(other, 'b');
    void *gone = map_file(path, NULL), *replaced = map_file(path, NULL);
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    munmap(gone, PAGE);
    map_file(other, replaced);
    CU_ASSERT_TRUE(procmap_refresh(m, 1, true, SECOND));
    CU_ASSERT_TRUE_FATAL(procmap_find(m, addr_of(gone), &e));
    CU_ASSERT_STRING_EQUAL(e.path, path);
    CU_ASSERT_TRUE_FATAL(procmap_find(m, addr_of(replaced), &e));
    CU_ASSERT_STRING_EQUAL(e.path, other);
    CU_ASSERT_EQUAL(first_byte(m, e.file), 'b');
    procmap_free(m);
    munmap(replaced, PAGE);
    unlink(path);
    unlink(other);
}

static void test_middle_of_a_range_replaced_leaves_both_ends(void)
{
    uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    CU_ASSERT_TRUE_FATAL(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_STRING_EQUAL(e.path, "[anon]");
    CU_ASSERT_EQUAL(e.file, UINT32_MAX);
    CU_ASSERT_EQUAL(procmap_fd(m, e.file), -1);
    munmap(p, 3 * PAGE);
    mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CU_ASSERT_TRUE(procmap_refresh(m, 1, true, SECOND));
    CU_ASSERT_TRUE(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_EQUAL(e.end, addr_of(p + PAGE));
    CU_ASSERT_FALSE(procmap_find(m, addr_of(p + PAGE), &e));
    CU_ASSERT_TRUE(procmap_find(m, addr_of(p + 2 * PAGE), &e));
    CU_ASSERT_EQUAL(e.start, addr_of(p + 2 * PAGE));
    procmap_free(m);
    munmap(p + PAGE, PAGE);
}

static void test_vdso_is_an_elf_file_shared_by_all(void)
{
    struct procmap *m = new_map(getpid());
    char line[512], magic[4];
    unsigned long long start = 0;
    struct procmap_entry e;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strstr(line, "[vdso]"))
            CU_ASSERT_EQUAL(sscanf(line, "%llx", &start), 1);
    }
    if (f)
        fclose(f);
    CU_ASSERT_TRUE_FATAL(procmap_find(m, start, &e));
    CU_ASSERT_STRING_EQUAL(e.path, "[vdso]");
    CU_ASSERT_EQUAL(pread(procmap_fd(m, e.file), magic, 4, 0), 4);
    CU_ASSERT_EQUAL(memcmp(magic, "\177ELF", 4), 0);
    procmap_free(m);
}

static void test_tick_sees_new_mappings_at_growing_intervals(void)
{
    enum { MS = 1000000 };
    char path[128];
    path_in_dir(path, "ticked");
    write_file(path, 't');
    struct procmap *m = new_map(getpid());
    struct procmap_entry e;
    uint64_t now = SECOND;
    CU_ASSERT_TRUE(procmap_tick(m, now)); /* nothing new: the next in 100 ms */
    void *p = map_file(path, NULL);
    CU_ASSERT_TRUE(procmap_tick(m, now + 99 * MS));
    CU_ASSERT_FALSE(procmap_find(m, addr_of(p), &e));
    CU_ASSERT_TRUE(procmap_tick(m, now + 100 * MS));
    CU_ASSERT_TRUE(procmap_find(m, addr_of(p), &e));
    void *q = map_file(path, NULL); /* after something new: 50 ms */
    CU_ASSERT_TRUE(procmap_tick(m, now + 150 * MS));
    CU_ASSERT_TRUE(procmap_find(m, addr_of(q), &e));
    procmap_free(m);
    munmap(p, PAGE);
    munmap(q, PAGE);
    unlink(path);
}

static void test_tick_of_a_process_that_is_gone_says_so(void)
{
    pid_t pid = idle_child();
    struct procmap *m = new_map(pid);
    struct procmap_entry e;
    uint64_t addr = addr_of((void *)(uintptr_t)new_map);
    end_child(pid);
    CU_ASSERT_FALSE(procmap_tick(m, SECOND));
    CU_ASSERT_TRUE(procmap_find(m, addr, &e));
    procmap_free(m);
}

static void test_process_that_is_gone_is_an_error(void)
{
    pid_t pid = idle_child();
    struct procmap *m = NULL;
    struct dvt_err err;
    end_child(pid);
    CU_ASSERT_EQUAL(procmap_new((uint32_t)pid, &m, &err), DVT_ENOENT);
    CU_ASSERT_PTR_NULL(m);
}

static int make_dir(void)
{
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void)
{
    return rmdir(dir);
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("procmap", make_dir, remove_dir);
    CU_ADD_TEST(s, test_own_function_lies_in_own_program);
    CU_ADD_TEST(s, test_two_processes_share_a_file);
    CU_ADD_TEST(s, test_map_and_files_outlive_the_process);
    CU_ADD_TEST(s, test_replaced_file_is_the_old_one_or_unknown);
    CU_ADD_TEST(s, test_new_mapping_is_seen_when_asked_for_again_after_100_ms);
    CU_ADD_TEST(s, test_unmapped_range_stays_and_replaced_one_is_cut);
    CU_ADD_TEST(s, test_middle_of_a_range_replaced_leaves_both_ends);
    CU_ADD_TEST(s, test_vdso_is_an_elf_file_shared_by_all);
    CU_ADD_TEST(s, test_tick_sees_new_mappings_at_growing_intervals);
    CU_ADD_TEST(s, test_tick_of_a_process_that_is_gone_says_so);
    CU_ADD_TEST(s, test_process_that_is_gone_is_an_error);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}
