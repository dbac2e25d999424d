/*
 * queue: see queue.h. Pairing: the producer's store of node->next is read by the consumer's acquire load, so
 * the item's contents are visible with it. That store, the look at `sleeping` after it, the consumer's store
 * of `sleeping` and its second look at the queue are seq_cst: one of the two sides sees the other. The byte
 * count is only a bound: relaxed.
 */
#include "queue.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wake_init(struct wake *w)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    w->fd = fd;
    atomic_init(&w->sleeping, 0);
    return 0;
}

void wake_fini(struct wake *w)
{
    close(w->fd);
    w->fd = -1;
}

void wake_up(struct wake *w)
{
    if (!atomic_load(&w->sleeping) || !atomic_exchange(&w->sleeping, 0))
        return;
    uint64_t one = 1;
    if (write(w->fd, &one, sizeof one) < 0)
        return; /* EAGAIN: the counter is full of wake-ups already */
}

void wake_prepare(struct wake *w)
{
    atomic_store(&w->sleeping, 1);
}

void wake_cancel(struct wake *w)
{
    atomic_store(&w->sleeping, 0);
}

void wake_wait(struct wake *w, int timeout_ms)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) > 0) {
        uint64_t n;
        if (read(w->fd, &n, sizeof n) < 0)
            n = 0; /* another look costs nothing */
    }
    wake_cancel(w);
}

static struct queue_node *node_new(void *item, size_t bytes)
{
    struct queue_node *n = malloc(sizeof *n);
    if (n) {
        atomic_init(&n->next, NULL);
        n->item = item;
        n->bytes = bytes + sizeof *n;
    }
    return n;
}

int queue_init(struct queue *q, size_t max_bytes, struct wake *consumer)
{
    struct queue_node *dummy = node_new(NULL, 0);
    if (!dummy)
        return -ENOMEM;
    q->head = q->tail = dummy;
    atomic_init(&q->bytes, 0);
    q->max_bytes = max_bytes;
    q->wake = consumer;
    return 0;
}

void queue_fini(struct queue *q, void (*free_item)(void *item))
{
    void *item;
    while ((item = queue_pop(q)) != NULL) {
        if (free_item)
            free_item(item);
    }
    free(q->head);
    q->head = q->tail = NULL;
}

bool queue_push_must(struct queue *q, void *item, size_t bytes)
{
    struct queue_node *n = node_new(item, bytes);
    if (!n)
        return false;
    atomic_fetch_add_explicit(&q->bytes, n->bytes, memory_order_relaxed);
    atomic_store(&q->tail->next, n);
    q->tail = n;
    if (q->wake)
        wake_up(q->wake);
    return true;
}

bool queue_push(struct queue *q, void *item, size_t bytes)
{
    size_t used = atomic_load_explicit(&q->bytes, memory_order_relaxed);
    if (used + bytes + sizeof(struct queue_node) > q->max_bytes)
        return false;
    return queue_push_must(q, item, bytes);
}

void *queue_pop(struct queue *q)
{
    struct queue_node *old = q->head;
    struct queue_node *n = atomic_load_explicit(&old->next, memory_order_acquire);
    if (!n)
        return NULL;
    q->head = n; /* n becomes the dummy */
    free(old);
    void *item = n->item;
    atomic_fetch_sub_explicit(&q->bytes, n->bytes, memory_order_relaxed);
    return item;
}

bool queue_is_empty(const struct queue *q)
{
    return atomic_load(&q->head->next) == NULL;
}

size_t queue_bytes(const struct queue *q)
{
    return atomic_load_explicit(&q->bytes, memory_order_relaxed);
}
