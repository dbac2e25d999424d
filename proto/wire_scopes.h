/*
 * wire_scopes: the keys of SCOPES, shared by its encoder and its decoder; PROTOCOL.md "SCOPES".
 */
#ifndef DVT_WIRE_SCOPES_H
#define DVT_WIRE_SCOPES_H

enum dvt_scopes_key {
    DVT_SCOPES_TID = 1,
    DVT_SCOPES_EPOCH = 2,
    DVT_SCOPES_N = 3,
    DVT_SCOPES_SETTLED_HEAD = 4,
    DVT_SCOPES_SETTLED_NS = 5,
    DVT_SCOPES_SPANS = 6,
    DVT_SCOPES_PARENT_SPANS = 7,
    DVT_SCOPES_TRACES = 8,
    DVT_SCOPES_NAMES = 9,
    DVT_SCOPES_LABELSETS = 10,
    DVT_SCOPES_LINKS = 11,
    DVT_SCOPES_COLS = 16, /* the first of the columns, which follow in the order below */
};

enum dvt_scopes_col {
    DVT_COL_END,
    DVT_COL_DUR,
    DVT_COL_HEAD_CLOSE,
    DVT_COL_HEAD_SPAN,
    DVT_COL_SERIAL,
    DVT_COL_PARENT_BACK,
    DVT_COL_TRACE,
    DVT_COL_NAME,
    DVT_COL_LABELSET,
    DVT_COL_FLAGS,
    DVT_N_SCOPES_COLS,
};

/* tid, epoch, n, two settled, spans, traces, names, labelsets and the columns; parent spans and links if
 * there are any. */
enum { DVT_SCOPES_ALWAYS_PAIRS = 9 + DVT_N_SCOPES_COLS };

#endif
