/*
 * out_html: the tree as one interactive page: flame.css, flame.js and the tree as JSON, nothing from anywhere
 * else.
 *
 * The names in it are hostile. They pass text_safe, go into JSON in which no '<' appears, and the script puts
 * them on the page as text only. The page's Content-Security-Policy admits the one script and the one style
 * sheet by their hashes and forbids any load, so that even a fault here runs nothing.
 */
#include "flame_assets.h"
#include "flame_order.h"
#include "intern.h"
#include "markup.h"
#include "output.h"
#include "text.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>

static void put_hash(FILE *out, const char *bytes, size_t n)
{
    unsigned char digest[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
    unsigned digest_bytes = 0;
    if (EVP_Digest(bytes, n, digest, &digest_bytes, EVP_sha256(), NULL) != 1) {
        digest_bytes = 0; /* then the browser refuses the script: no output is worth an open policy */
    }
    EVP_EncodeBlock(base64, digest, (int)digest_bytes);
    fprintf(out, "'sha256-%s'", (const char *)base64);
}

static void put_head(const struct tree_meta *m, FILE *out)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
          "form-action 'none'; "
          "script-src ",
          out);
    put_hash(out, flame_js, flame_js_bytes);
    fputs("; style-src ", out);
    put_hash(out, flame_css, flame_css_bytes);
    fputs("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" "
          "content=\"no-referrer\">\n<title>",
          out);
    markup_xml(out, m->title);
    fprintf(out,
            " - dovetail</title>\n<style>%s</style>\n</head>\n<body>\n"
            "<noscript>This flame graph needs JavaScript; without it use the .svg output.</noscript>\n",
            flame_css);
}

static void put_number(FILE *out, const char *key, uint64_t v)
{
    fprintf(out, "\"%s\":%" PRIu64 ",", key, v);
}

static void put_text(FILE *out, const char *key, const char *safe)
{
    fprintf(out, "\"%s\":", key);
    markup_json(out, safe ? safe : "");
    fputc(',', out);
}

static void put_meta(const struct tree_meta *m, FILE *out)
{
    char start[40];
    text_time(m->start_ns, true, start);
    put_text(out, "title", m->title);
    put_text(out, "traceId", m->trace_id);
    put_text(out, "filter", m->filter);
    put_text(out, "event", m->event);
    put_text(out, "service", m->service);
    put_text(out, "start", start);
    put_number(out, "traces", m->n_traces);
    put_number(out, "durationNs", m->duration_ns);
    put_number(out, "onCpuNs", m->on_cpu_ns);
    put_number(out, "periodNs", m->period_ns);
    put_number(out, "samples", m->samples);
    put_number(out, "noStack", m->no_stack);
    put_number(out, "shared", m->shared);
    put_number(out, "ambiguous", m->ambiguous);
    put_number(out, "lost", m->lost_samples);
    put_number(out, "uncoveredNs", m->uncovered_ns);
    put_number(out, "cutShort", m->cut_short);
    fprintf(out, "\"counts\":%s,\n", m->weights_are_counts ? "true" : "false");
}

static void put_strings(const struct tree *t, FILE *out)
{
    fputs("\"strings\":[", out);
    for (uint32_t i = 0; i < intern_count(t->strings); i++) {
        char *safe = text_safe(intern_at(t->strings, i), 0);
        fputs(i ? ",\n" : "", out);
        markup_json(out, safe);
        free(safe);
    }
    fputs("],\n", out);
}

/* One column per property, the nodes in layout order. */
enum column { DEPTH, KIND, NAME, MODULE, FILE_NAME, LINE, SELF, SELF_SAMPLES, N_COLUMNS };

static uint64_t value_of(const struct tree *t, const struct flame_order *o, size_t i, enum column c)
{
    const struct tree_node *n = &t->nodes[o->nodes[i]];
    switch (c) {
    case DEPTH:
        return o->depth[i];
    case KIND:
        return flame_kind_of(n);
    case NAME:
        return intern_index(t->strings, n->name);
    case MODULE:
        return intern_index(t->strings, n->module);
    case FILE_NAME:
        return intern_index(t->strings, n->file);
    case LINE:
        return n->line;
    case SELF:
        return n->self_ns;
    default:
        return n->self_samples;
    }
}

static void put_columns(const struct tree *t, FILE *out)
{
    static const char *const names[] = {"depth", "kind", "name", "module",
                                        "file",  "line", "self", "selfSamples"};
    struct flame_order o;
    flame_order_init(&o, t);
    for (int c = 0; c < N_COLUMNS; c++) {
        fprintf(out, "\"%s\":[", names[c]);
        for (size_t i = 0; i < o.n; i++) {
            fprintf(out, i ? ",%" PRIu64 : "%" PRIu64, value_of(t, &o, i, (enum column)c));
        }
        fputs(c + 1 < N_COLUMNS ? "],\n" : "]", out);
    }
    flame_order_fini(&o);
}

static int write_html(const struct tree *tree, const struct tree_meta *meta, FILE *out)
{
    put_head(meta, out);
    fputs("<script type=\"application/json\" id=\"data\">{", out);
    put_meta(meta, out);
    /* Columns first: looking a node's strings up interns the empty one if it was not there. */
    put_columns(tree, out);
    fputs(",\n", out);
    put_strings(tree, out);
    fprintf(out, "\"version\":1}</script>\n<script>%s</script>\n</body>\n</html>\n", flame_js);
    return ferror(out) ? DVT_EIO : 0;
}

const struct output_ops out_html = {"html", ".html", write_html};
