/*
 * Encoding and decoding chunks: MB/s, samples/s, and the ratio to memcpy of the same bytes, best of several
 * rounds in one run. Usage: bench_chunk [SAMPLES]
 */
#include <time.h>
#include "../chunk_make.h"

enum { ROUNDS = 7 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread: other load does not count */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double best(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static void measure(const char *what, struct made_size z)
{
    struct made *m = made_new(1, z);
    struct dvt_buf b;
    double encode = 0, decode = 0, copy = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t base = 1;
        dvt_buf_init(&b, 1u << 30);
        double t = now_s();
        if (dvt_chunk_encode(&m->c, &base, &b, NULL))
            abort();
        encode = best(encode, now_s() - t);
        struct dvt_chunk d;
        t = now_s();
        if (dvt_chunk_decode(b.p, b.n, &d, NULL))
            abort();
        decode = best(decode, now_s() - t);
        dvt_chunk_fini(&d);
        uint8_t *to = malloc(b.n);
        memset(to, 1, b.n);
        t = now_s();
        memcpy(to, b.p, b.n);
        copy = best(copy, now_s() - t + 1e-9 * (to[b.n / 2] == 77));
        free(to);
        if (i + 1 < ROUNDS)
            dvt_buf_fini(&b);
    }
    double mb = (double)b.n / 1e6;
    printf("%-28s %9zu bytes  encode %7.1f MB/s %6.2f M samples/s  decode %7.1f MB/s %6.2f M samples/s  "
           "decode/memcpy %.0f\n",
           what, b.n, mb / encode, z.samples / encode / 1e6, mb / decode, z.samples / decode / 1e6,
           decode / copy);
    dvt_buf_fini(&b);
    made_free(m);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000000;
    measure("samples", (struct made_size){8, 1000, 500, 30, n});
    measure("scopes (50,000)", (struct made_size){8, 50000, 10, 10, 1000});
    measure("deep stacks (3,000 x 200)", (struct made_size){8, 100, 3000, 200, 3000});
    measure("one small trace", (struct made_size){2, 20, 30, 25, 40});
    return 0;
}
