/*
 * guard: see guard.h. The copy routine is in assembly, so that the address of its load is known: the SIGSEGV
 * handler moves a fault there to the routine's failure exit.
 */
#include "guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

/* Returns 0, or 1 after a fault. Whole words while there are 8 bytes left, then bytes. */
int dvt_guard_copy(void *to, const void *from, size_t n);
extern const char dvt_guard_begin[], dvt_guard_end[], dvt_guard_fail[];

#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden dvt_guard_copy, dvt_guard_begin, dvt_guard_end, dvt_guard_fail\n"
        ".globl dvt_guard_copy, dvt_guard_begin, dvt_guard_end, dvt_guard_fail\n"
        ".type dvt_guard_copy, @function\n"
        "dvt_guard_copy:\n"
        "    cmp $8, %rdx\n"
        "    jb 2f\n"
        "dvt_guard_begin:\n"
        "1:  mov (%rsi), %rax\n"
        "    mov %rax, (%rdi)\n"
        "    add $8, %rsi\n"
        "    add $8, %rdi\n"
        "    sub $8, %rdx\n"
        "    cmp $8, %rdx\n"
        "    jae 1b\n"
        "2:  test %rdx, %rdx\n"
        "    je 4f\n"
        "3:  movb (%rsi), %al\n"
        "    movb %al, (%rdi)\n"
        "    inc %rsi\n"
        "    inc %rdi\n"
        "    dec %rdx\n"
        "    jne 3b\n"
        "dvt_guard_end:\n"
        "4:  xor %eax, %eax\n"
        "    ret\n"
        "dvt_guard_fail:\n"
        "    mov $1, %eax\n"
        "    ret\n"
        ".size dvt_guard_copy, . - dvt_guard_copy\n");
#define PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
typedef greg_t pc_type;
#elif defined(__aarch64__)
__asm__(".text\n"
        ".hidden dvt_guard_copy, dvt_guard_begin, dvt_guard_end, dvt_guard_fail\n"
        ".globl dvt_guard_copy, dvt_guard_begin, dvt_guard_end, dvt_guard_fail\n"
        ".type dvt_guard_copy, %function\n"
        "dvt_guard_copy:\n"
        "    cmp x2, #8\n"
        "    b.lo 2f\n"
        "dvt_guard_begin:\n"
        "1:  ldr x3, [x1], #8\n"
        "    str x3, [x0], #8\n"
        "    sub x2, x2, #8\n"
        "    cmp x2, #8\n"
        "    b.hs 1b\n"
        "2:  cbz x2, 4f\n"
        "3:  ldrb w3, [x1], #1\n"
        "    strb w3, [x0], #1\n"
        "    subs x2, x2, #1\n"
        "    b.ne 3b\n"
        "dvt_guard_end:\n"
        "4:  mov w0, #0\n"
        "    ret\n"
        "dvt_guard_fail:\n"
        "    mov w0, #1\n"
        "    ret\n"
        ".size dvt_guard_copy, . - dvt_guard_copy\n");
#define PC(uc) ((uc)->uc_mcontext.pc)
typedef unsigned long long pc_type;
#else
#define DVT_NO_GUARD 1
#endif

#ifndef DVT_NO_GUARD

static struct sigaction before_segv, before_bus;
static _Atomic uint64_t n_faults;
static bool installed; /* once: a handler that has since been put before ours may call it */
static atomic_bool ours; /* relaxed: a hint, taken anew at each walk */

/* As the kernel would: SIG_DFL is put back and the fault happens again; a handler is called. */
static void pass_on(const struct sigaction *old, int sig, siginfo_t *info, void *context)
{
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(sig, info, context);
    else if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)
        (void)sigaction(sig, old, NULL);
    else
        old->sa_handler(sig);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    uintptr_t pc = (uintptr_t)PC(uc);
    if (pc >= (uintptr_t)dvt_guard_begin && pc < (uintptr_t)dvt_guard_end) {
        PC(uc) = (pc_type)(uintptr_t)dvt_guard_fail;
        atomic_fetch_add_explicit(&n_faults, 1, memory_order_relaxed);
        return;
    }
    pass_on(sig == SIGSEGV ? &before_segv : &before_bus, sig, info, context);
}

int dvt_guard_init(void)
{
    struct sigaction mine = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    if (installed)
        return 0;
    if (sigaction(SIGSEGV, &mine, &before_segv))
        return -1;
    if (sigaction(SIGBUS, &mine, &before_bus)) {
        (void)sigaction(SIGSEGV, &before_segv, NULL);
        return -1;
    }
    installed = true;
    atomic_store_explicit(&ours, true, memory_order_relaxed);
    return 0;
}

void dvt_guard_check(void)
{
    struct sigaction segv, bus;
    bool is_ours = sigaction(SIGSEGV, NULL, &segv) == 0 && segv.sa_sigaction == on_fault &&
                   sigaction(SIGBUS, NULL, &bus) == 0 && bus.sa_sigaction == on_fault;
    atomic_store_explicit(&ours, is_ours, memory_order_relaxed);
}

bool dvt_guard_read(void *to, uintptr_t from, size_t n)
{
    if (from < 4096 || from >> 48)
        return false;
    if (atomic_load_explicit(&ours, memory_order_relaxed))
        return dvt_guard_copy(to, (const void *)from, n) == 0;
    struct iovec local = {to, n}, remote = {(void *)from, n};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)n;
}

uint64_t dvt_guard_faults(void)
{
    return atomic_load_explicit(&n_faults, memory_order_relaxed);
}

#else

int dvt_guard_init(void)
{
    return -1;
}

void dvt_guard_check(void)
{
}

bool dvt_guard_read(void *to, uintptr_t from, size_t n)
{
    (void)to;
    (void)from;
    (void)n;
    return false;
}

uint64_t dvt_guard_faults(void)
{
    return 0;
}

#endif
