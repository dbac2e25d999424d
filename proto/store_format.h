/*
 * store_format: what daemon and CLI must agree on about the store on disk.
 *
 *   DIR/index.db            SQLite, WAL
 *   DIR/segments/NNNNNNNN.jfr   chunks one after the other; id NNNNNNNN in decimal
 *   DIR/columns/            derived by the CLI, may be deleted at any time
 *   DIR/lock                flock'ed by the one daemon that writes, holds its pid
 */
#ifndef DVT_STORE_FORMAT_H
#define DVT_STORE_FORMAT_H

enum { DVT_STORE_VERSION = 2, DVT_DIGEST_BYTES = 32 };

#define DVT_SEGMENT_NAME_FMT "segments/%08u.jfr"

/* Schema, PRAGMA user_version = DVT_STORE_VERSION. Ids are BLOBs. Times UNIX ns. Rows of one chunk are
 * written in one transaction after the chunk itself is synced. traces is the sum over chunks, kept by the
 * writer. */
#define DVT_STORE_SCHEMA                                                                                     \
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"                            \
    "CREATE TABLE IF NOT EXISTS segments(id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, sealed INTEGER "    \
    "NOT NULL);"                                                                                             \
    "CREATE TABLE IF NOT EXISTS traces(id INTEGER PRIMARY KEY, trace BLOB NOT NULL UNIQUE, start_ns "        \
    "INTEGER NOT NULL,"                                                                                      \
    " end_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, on_cpu_ns INTEGER NOT NULL, blocked_ns "        \
    "INTEGER,"                                                                                               \
    " runnable_ns INTEGER, samples INTEGER NOT NULL, no_stack INTEGER NOT NULL, scopes INTEGER NOT NULL,"    \
    " root_name TEXT NOT NULL, root_service TEXT NOT NULL, bytes INTEGER NOT NULL, pinned INTEGER NOT NULL " \
    "DEFAULT 0,"                                                                                             \
    " failed INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0, parts INTEGER NOT NULL DEFAULT 0,"  \
    " root_ns INTEGER, root_marked INTEGER NOT NULL DEFAULT 0);"                                             \
    "CREATE INDEX IF NOT EXISTS traces_duration ON traces(duration_ns);"                                     \
    "CREATE INDEX IF NOT EXISTS traces_start ON traces(start_ns);"                                           \
    "CREATE TABLE IF NOT EXISTS chunks(trace_id INTEGER NOT NULL, part INTEGER NOT NULL, segment INTEGER "   \
    "NOT NULL,"                                                                                              \
    " offset INTEGER NOT NULL, bytes INTEGER NOT NULL, samples INTEGER NOT NULL, digest BLOB NOT NULL,"      \
    " PRIMARY KEY(segment, offset)) WITHOUT ROWID;"                                                          \
    "CREATE INDEX IF NOT EXISTS chunks_trace ON chunks(trace_id, part);"                                     \
    "CREATE TABLE IF NOT EXISTS labels(key TEXT NOT NULL, value TEXT NOT NULL, trace_id INTEGER NOT NULL,"   \
    " samples INTEGER NOT NULL, on_cpu_ns INTEGER NOT NULL, near_samples INTEGER NOT NULL,"                  \
    " near_on_cpu_ns INTEGER NOT NULL, PRIMARY KEY(key, value, trace_id)) WITHOUT ROWID;"                    \
    "CREATE INDEX IF NOT EXISTS labels_trace ON labels(trace_id);"                                           \
    "CREATE TABLE IF NOT EXISTS spans(span BLOB NOT NULL, trace_id INTEGER NOT NULL, PRIMARY KEY(span, "     \
    "trace_id))"                                                                                             \
    " WITHOUT ROWID;"                                                                                        \
    "CREATE INDEX IF NOT EXISTS spans_trace ON spans(trace_id);"                                             \
    "CREATE TABLE IF NOT EXISTS tags(tag TEXT NOT NULL, trace_id INTEGER NOT NULL, PRIMARY KEY(tag, "        \
    "trace_id))"                                                                                             \
    " WITHOUT ROWID;"                                                                                        \
    "CREATE INDEX IF NOT EXISTS tags_trace ON tags(trace_id);"                                               \
    "CREATE TABLE IF NOT EXISTS names(name TEXT NOT NULL, service TEXT NOT NULL, trace_id INTEGER NOT NULL," \
    " samples INTEGER NOT NULL, PRIMARY KEY(name, service, trace_id)) WITHOUT ROWID;"                        \
    "CREATE INDEX IF NOT EXISTS names_trace ON names(trace_id);"                                             \
    "CREATE INDEX IF NOT EXISTS names_service ON names(service, trace_id);"                                  \
    "CREATE TABLE IF NOT EXISTS dropped(service TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,"  \
    " PRIMARY KEY(service, name)) WITHOUT ROWID;"                                                            \
    "CREATE TABLE IF NOT EXISTS processes(boot TEXT NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER "    \
    "NOT NULL,"                                                                                              \
    " service TEXT NOT NULL, runtime TEXT NOT NULL, program TEXT NOT NULL, first_ns INTEGER NOT NULL,"       \
    " last_ns INTEGER NOT NULL, ledger TEXT NOT NULL, PRIMARY KEY(boot, pid, start_ticks, first_ns))"        \
    " WITHOUT ROWID;"

/* segments.sealed: 0 the writer appends to it, 1 complete, 2 about to be unlinked (no chunk refers to it).
 * meta: key_base (see chunk.h). traces.duration_ns is end - start over the trace's scopes and samples.
 * processes: a row for each session of a process with a daemon (it may exec, or the daemon restart);
 * first_ns is the session's begin. Its ledger is a JSON object of integers, the fields of struct ledger in
 * daemon/stats.h by name. labels.samples counts the trace's samples under scopes that carry the label (own,
 * or inherited from an enclosing scope or a parent span; a label with one value in the whole trace counts
 * for all of it), labels.near_samples those without that last rule. traces.failed: a scope has the label
 * "error", not empty, "false" or "0". traces.root_ns and root_marked (dvt_chunk_root_rank) say which scope
 * is the root so far, for the next part. */

#endif
