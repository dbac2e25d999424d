/*
 * session: see session.h. A list, since there are tens of processes; ids and keys by OpenSSL's RAND_bytes.
 */
#include "session.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct session {
    struct session *next;
    struct session_keys keys;
    struct process *proc;
    uint64_t last_seq;
    uint64_t heard_ns;  /* the shim's clock */
    uint64_t active_ns; /* our clock: last valid message, or its closing */
    bool closing, bye;
};

struct sessions {
    pthread_mutex_t lock;
    struct session *first; /* lock */
    uint32_t last_index;   /* lock */
    struct edge_counts unknown;
};

struct sessions *sessions_new(void)
{
    struct sessions *s = calloc(1, sizeof *s);
    if (s && pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void session_free(struct session *x)
{
    OPENSSL_cleanse(&x->keys, sizeof x->keys);
    process_unref(x->proc);
    free(x);
}

void sessions_free(struct sessions *s)
{
    if (!s)
        return;
    while (s->first) {
        struct session *x = s->first;
        s->first = x->next;
        session_free(x);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int sessions_prepare(struct sessions *s, struct process *proc, struct session_keys *ret, struct dvt_err *err)
{
    struct session_keys k;
    if (RAND_bytes((unsigned char *)&k.id, sizeof k.id) != 1 || RAND_bytes(k.key, sizeof k.key) != 1)
        return dvt_fail(err, DVT_EIO, 0, "no random bytes for a session key");
    pthread_mutex_lock(&s->lock);
    proc->index = ++s->last_index;
    pthread_mutex_unlock(&s->lock);
    *ret = k;
    return 0;
}

int sessions_publish(struct sessions *s, const struct session_keys *k, struct process *proc,
                     struct dvt_err *err)
{
    struct session *x = calloc(1, sizeof *x);
    if (!x)
        return dvt_fail(err, DVT_ENOMEM, 0, "no memory for a session");
    x->keys = *k;
    x->proc = process_ref(proc);
    pthread_mutex_lock(&s->lock);
    x->next = s->first;
    s->first = x;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Lock held. */
static struct session *find(struct sessions *s, uint64_t id)
{
    struct session *x = s->first;
    while (x && x->keys.id != id)
        x = x->next;
    return x;
}

void sessions_close(struct sessions *s, uint64_t id, uint64_t now_ns)
{
    pthread_mutex_lock(&s->lock);
    struct session *x = find(s, id);
    if (x) {
        x->closing = true;
        x->active_ns = now_ns;
    }
    pthread_mutex_unlock(&s->lock);
}

static bool copy_key(struct sessions *s, uint64_t id, uint8_t key[DVT_KEY_BYTES], struct process **ret_proc)
{
    pthread_mutex_lock(&s->lock);
    const struct session *x = find(s, id);
    if (x) {
        memcpy(key, x->keys.key, DVT_KEY_BYTES);
        *ret_proc = process_ref(x->proc);
    }
    pthread_mutex_unlock(&s->lock);
    return x != NULL;
}

/* False: replayed, or the session went away meanwhile. */
static bool advance(struct sessions *s, const struct dvt_envelope *env, uint64_t now_ns)
{
    pthread_mutex_lock(&s->lock);
    struct session *x = find(s, env->session);
    bool ok = x && env->seq > x->last_seq;
    if (ok) {
        x->last_seq = env->seq;
        x->active_ns = now_ns;
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

/* Of those whose session is known. */
static void check_macs(const struct dvt_envelope *env, uint8_t key[][DVT_KEY_BYTES], size_t n,
                       struct session_answer *ret)
{
    if (n == 2 && ret[0].proc && ret[1].proc) {
        int code[2];
        dvt_wire_verify_pair(env, (const uint8_t *const[]){key[0], key[1]}, code);
        ret[0].code = code[0];
        ret[1].code = code[1];
        return;
    }
    for (size_t i = 0; i < n; i++)
        ret[i].code = ret[i].proc ? dvt_wire_verify(&env[i], key[i]) : DVT_EAUTH;
}

/* The macs are computed without the lock: a large batch takes a while. */
void sessions_check(struct sessions *s, const struct dvt_envelope *env, size_t n, uint64_t now_ns,
                    struct session_answer *ret)
{
    uint8_t key[2][DVT_KEY_BYTES];
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct session_answer){0};
        if (!copy_key(s, env[i].session, key[i], &ret[i].proc))
            edge_count(s->unknown.messages_forged, 1);
    }
    check_macs(env, key, n, ret);
    OPENSSL_cleanse(key, sizeof key);
    for (size_t i = 0; i < n; i++) {
        if (ret[i].code == 0 && !advance(s, &env[i], now_ns))
            ret[i].code = DVT_EAUTH;
        if (ret[i].code == 0 || !ret[i].proc)
            continue;
        edge_count(ret[i].proc->edge.messages_forged, 1);
        process_unref(ret[i].proc);
        ret[i].proc = NULL;
    }
}

void sessions_heard(struct sessions *s, uint64_t id, uint64_t shim_now_ns, bool bye)
{
    pthread_mutex_lock(&s->lock);
    struct session *x = find(s, id);
    if (x) {
        x->heard_ns = shim_now_ns > x->heard_ns ? shim_now_ns : x->heard_ns;
        x->bye = x->bye || bye;
    }
    pthread_mutex_unlock(&s->lock);
}

bool sessions_all_heard(struct sessions *s, uint64_t since_ns)
{
    bool all = true;
    pthread_mutex_lock(&s->lock);
    for (const struct session *x = s->first; x; x = x->next)
        all = all && (x->bye || x->heard_ns >= since_ns);
    pthread_mutex_unlock(&s->lock);
    return all;
}

static bool has_ended(const struct session *x, uint64_t now_ns)
{
    return x->closing && (x->bye || now_ns - x->active_ns >= SESSION_QUIET_MS * 1000000ull);
}

bool sessions_take_ended(struct sessions *s, uint64_t now_ns, uint32_t *ret_process)
{
    pthread_mutex_lock(&s->lock);
    struct session **at = &s->first;
    while (*at && !has_ended(*at, now_ns))
        at = &(*at)->next;
    struct session *x = *at;
    if (x)
        *at = x->next;
    pthread_mutex_unlock(&s->lock);
    if (!x)
        return false;
    *ret_process = x->proc->index;
    session_free(x);
    return true;
}

bool sessions_any_closing(struct sessions *s)
{
    bool any = false;
    pthread_mutex_lock(&s->lock);
    for (const struct session *x = s->first; x; x = x->next)
        any = any || x->closing;
    pthread_mutex_unlock(&s->lock);
    return any;
}

struct edge_counts *sessions_unknown(struct sessions *s)
{
    return &s->unknown;
}
