/*
 * tag: renders a scope to one prefix-searchable string by a template.
 *
 * Template: text with {trace} {span} {name} {service} {label:KEY} {tenant} (= {label:tenant}).
 * A missing value renders as "-". `{{` and `}}` are literal braces. Control characters and bytes that
 * are not UTF-8 render as U+FFFD. The result is cut to DVT_MAX_TAG bytes at a UTF-8 border.
 */
#ifndef DVT_TAG_H
#define DVT_TAG_H

#include "err.h"
#include "ids.h"
#include "str.h"

#define DVT_TAG_DEFAULT "{trace}/{span}/{name}"

struct dvt_tag_in {
    const struct dvt_trace_id *trace;
    const struct dvt_span_id *span;
    struct dvt_str name, service;
    const struct dvt_label *labels; /* [n_labels] */
    size_t n_labels;
};

/* Checks a template; the error names the unknown field. */
int dvt_tag_check(struct dvt_str tmpl, struct dvt_err *err);
/* Renders into out[cap] with a final NUL; returns the length without it. The template must have passed
 * dvt_tag_check. */
size_t dvt_tag_render(struct dvt_str tmpl, const struct dvt_tag_in *in, char *out, size_t cap);

#endif
