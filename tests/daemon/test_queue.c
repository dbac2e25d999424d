/* queue: order, the bound in bytes, wake-ups that are never lost. */
#include "../../daemon/queue.h"
#include "edge_check.h"

#include <pthread.h>
#include <stdlib.h>

static void test_queue_gives_items_in_their_order(void)
{
    struct queue q;
    int items[3] = {0};
    CU_ASSERT_EQUAL_FATAL(queue_init(&q, 1000, NULL), 0);
    CU_ASSERT_PTR_NULL(queue_pop(&q));
    CU_ASSERT_TRUE(queue_is_empty(&q));
    for (int i = 0; i < 3; i++)
        CU_ASSERT_TRUE(queue_push(&q, &items[i], 10));
    CU_ASSERT_FALSE(queue_is_empty(&q));
    for (int i = 0; i < 3; i++)
        CU_ASSERT_PTR_EQUAL(queue_pop(&q), &items[i]);
    CU_ASSERT_PTR_NULL(queue_pop(&q));
    CU_ASSERT_EQUAL(queue_bytes(&q), 0);
    queue_fini(&q, NULL);
}

static void test_queue_refuses_what_passes_its_bound(void)
{
    struct queue q;
    int item;
    size_t one = 100 + sizeof(struct queue_node);
    CU_ASSERT_EQUAL_FATAL(queue_init(&q, 2 * one, NULL), 0);
    CU_ASSERT_TRUE(queue_push(&q, &item, 100));
    CU_ASSERT_TRUE(queue_push(&q, &item, 100));
    CU_ASSERT_FALSE(queue_push(&q, &item, 1));
    CU_ASSERT_EQUAL(queue_bytes(&q), 2 * one);
    CU_ASSERT_PTR_EQUAL(queue_pop(&q), &item);
    CU_ASSERT_TRUE(queue_push(&q, &item, 100));
    queue_fini(&q, NULL);
}

static void test_queue_takes_what_must_arrive_when_full(void)
{
    struct queue q;
    int item, last;
    CU_ASSERT_EQUAL_FATAL(queue_init(&q, 200, NULL), 0);
    while (queue_push(&q, &item, 10))
        ;
    CU_ASSERT_TRUE(queue_push_must(&q, &last, 1000));
    void *got, *before = NULL;
    while ((got = queue_pop(&q)) != NULL)
        before = got;
    CU_ASSERT_PTR_EQUAL(before, &last);
    queue_fini(&q, NULL);
}

static void test_queue_fini_frees_what_was_not_taken(void)
{
    struct queue q;
    CU_ASSERT_EQUAL_FATAL(queue_init(&q, 1000, NULL), 0);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_TRUE(queue_push(&q, malloc(8), 8));
    queue_fini(&q, free); /* the leak check of the sanitized build is the assertion */
    CU_ASSERT_PTR_NULL(q.head);
}

enum { N_ITEMS = 200000 };

struct relay {
    struct wake wake;
    struct queue a, b;
};

static void *produce(void *arg)
{
    struct relay *r = arg;
    for (uintptr_t i = 1; i <= N_ITEMS; i++)
        queue_push_must(&r->a, (void *)i, 0);
    return NULL;
}

static void *produce_b(void *arg)
{
    struct relay *r = arg;
    for (uintptr_t i = 1; i <= N_ITEMS; i++)
        queue_push_must(&r->b, (void *)i, 0);
    return NULL;
}

/* With a lost wake-up the consumer would sleep for ever: the test's time limit is the assertion. */
static void test_queue_wakes_a_consumer_of_two_queues(void)
{
    struct relay r;
    pthread_t ta, tb;
    uintptr_t next_a = 1, next_b = 1, wrong = 0;
    CU_ASSERT_EQUAL_FATAL(wake_init(&r.wake), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r.a, SIZE_MAX / 2, &r.wake), 0);
    CU_ASSERT_EQUAL_FATAL(queue_init(&r.b, SIZE_MAX / 2, &r.wake), 0);
    pthread_create(&ta, NULL, produce, &r);
    pthread_create(&tb, NULL, produce_b, &r);
    while (next_a <= N_ITEMS || next_b <= N_ITEMS) {
        void *a = queue_pop(&r.a), *b = queue_pop(&r.b);
        wrong += a && (uintptr_t)a != next_a;
        wrong += b && (uintptr_t)b != next_b;
        next_a += a != NULL;
        next_b += b != NULL;
        if (a || b)
            continue;
        wake_prepare(&r.wake);
        if (queue_is_empty(&r.a) && queue_is_empty(&r.b))
            wake_wait(&r.wake, -1);
        else
            wake_cancel(&r.wake);
    }
    pthread_join(ta, NULL);
    pthread_join(tb, NULL);
    CU_ASSERT_EQUAL(wrong, 0);
    queue_fini(&r.a, NULL);
    queue_fini(&r.b, NULL);
    wake_fini(&r.wake);
}

int main(void)
{
    static const struct edge_test tests[] = {
        {"queue gives items in their order", test_queue_gives_items_in_their_order},
        {"queue refuses what passes its bound", test_queue_refuses_what_passes_its_bound},
        {"queue takes what must arrive when full", test_queue_takes_what_must_arrive_when_full},
        {"queue_fini frees what was not taken", test_queue_fini_frees_what_was_not_taken},
        {"queue wakes a consumer of two queues", test_queue_wakes_a_consumer_of_two_queues},
    };
    return EDGE_RUN("queue", tests);
}
