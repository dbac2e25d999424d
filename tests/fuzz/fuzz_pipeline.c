/*
 * fuzz_pipeline: any bytes as a history of messages, samples and time. Nothing may crash, and the ledger must add up.
 *
 * Input: commands, each a byte and its operands (missing bytes are 0). 'm' u16 n, body: a message with these bytes;
 * 's' tid, u16 offset: a sample; 'p' tid, u16 head: progress; 'e' tid: its end; 't' u16 ms: a tick; 'c': close all;
 * 'd': the process ends; 'u': another comes up; other bytes are skipped.
 */
#include "../daemon/pipeline_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p, *end;
};

static uint32_t take8(struct input *in)
{
    return in->p < in->end ? *in->p++ : 0;
}

static uint32_t take16(struct input *in)
{
    uint32_t low = take8(in);
    return low | take8(in) << 8;
}

static void message(struct rig *r, struct input *in, uint32_t process)
{
    size_t n = take16(in), left = (size_t)(in->end - in->p);
    n = n < left ? n : left;
    uint8_t *exact = malloc(n ? n : 1); /* own block, so that a sanitizer sees an over-read */
    if (!exact)
        abort();
    memcpy(exact, in->p, n);
    pipeline_message(r->p, process, exact, n, r->now_ns);
    free(exact);
    in->p += n;
}

static void command(struct rig *r, struct input *in, uint32_t *process)
{
    struct thread_key key = {*process, 0, 1};
    switch (take8(in)) {
    case 'm':
        message(r, in, *process);
        break;
    case 's':
        key.tid = take8(in);
        rig_sample_of(r, key, 1 + take16(in), r->now_ns);
        break;
    case 'p':
        key.tid = take8(in);
        pipeline_progress(r->p, key, take16(in), 0, false);
        break;
    case 'e':
        key.tid = take8(in);
        pipeline_progress(r->p, key, 0, 1, true);
        break;
    case 't':
        rig_tick(r, take16(in) * MS);
        break;
    case 'c':
        pipeline_close_all(r->p, r->now_ns);
        break;
    case 'd':
        pipeline_process_down(r->p, *process, r->now_ns);
        break;
    case 'u': {
        struct process *proc = rig_process(++*process, true);
        pipeline_process_up(r->p, proc);
        process_unref(proc);
        break;
    }
    default:
        break;
    }
}

static void check_trace(const struct trace *t)
{
    for (uint32_t i = 0; i < t->n_samples; i++) {
        const struct trace_sample *s = &t->samples[i];
        if (s->scope >= t->n_scopes || s->thread >= t->n_threads || s->first_mframe + s->n_mframes > t->n_mstack)
            abort();
        for (uint32_t k = 0; k < s->n_mframes; k++)
            if (t->mstack[s->first_mframe + k] >= t->n_mframes)
                abort();
    }
    for (uint32_t i = 0; i < t->n_scopes; i++) {
        uint32_t steps = 0;
        for (uint32_t k = i; k != DVT_NONE; k = t->scopes[k].parent)
            if (k >= t->n_scopes || steps++ > t->n_scopes)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pipeline_config cfg;
    struct input in = {data, data + size};
    struct rig r;
    uint32_t process = 1;
    pipeline_config_default(&cfg);
    cfg.memory_cap_bytes = 1 << 20;
    cfg.part_cap_samples = 16;
    rig_start(&r, &cfg, true);
    while (in.p < in.end)
        command(&r, &in, &process);
    pipeline_close_all(r.p, r.now_ns);
    for (struct trace *t; (t = pipeline_take_closed(r.p)); trace_free(t))
        check_trace(t);
    if (!rig_adds_up(&r))
        abort();
    rig_stop(&r);
    return 0;
}
