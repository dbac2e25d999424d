/*
 * join_peer: runs DuckDB over the generated scopes and samples (duckdb_asof.js). For bench_join.
 */
#ifndef JOIN_PEER_H
#define JOIN_PEER_H

#include "join_messages.h"

struct peer { /* CPU seconds, 0 if it cannot be run here */
    double join_s, load_s;
    uint64_t pairs;
};

static FILE *open_csv(const char *dir, const char *name, const char *head)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.csv", dir, name);
    FILE *f = fopen(path, "w");
    require(f != NULL, path);
    fprintf(f, "%s\n", head);
    return f;
}

static void write_csv(const char *dir)
{
    FILE *f = open_csv(dir, "scopes", "tid,depth,open,close,root");
    for (uint32_t i = 0; i < GEN_THREADS; i++)
        for (uint32_t k = 0; k < threads[i].n_scopes; k++)
            fprintf(f, "%u,%u,%lu,%lu,%u\n", i, threads[i].scopes[k].depth, threads[i].scopes[k].open,
                    threads[i].scopes[k].close, threads[i].scopes[k].trace);
    require(!fclose(f), dir);
    f = open_csv(dir, "samples", "tid,t");
    for (uint32_t i = 0; i < GEN_THREADS; i++)
        for (uint32_t k = 0; k < threads[i].n_samples; k++)
            fprintf(f, "%u,%lu\n", i, threads[i].samples[k]);
    require(!fclose(f), dir);
}

static void remove_csv(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/scopes.csv", dir);
    remove(path);
    snprintf(path, sizeof path, "%s/samples.csv", dir);
    remove(path);
}

static struct peer run_peer(void)
{
    const char *build = getenv("DOVETAIL_BUILD"), *source = __FILE__;
    char dir[2048], command[8192], line[256];
    struct peer peer = {0};
    snprintf(dir, sizeof dir, "%s/duckdb", build ? build : "/tmp/dovetail-bench");
    snprintf(command, sizeof command, "mkdir -p '%s'", dir);
    require(system(command) == 0, dir);
    write_csv(dir);
    snprintf(command, sizeof command, "node '%.*s/duckdb_asof.js' '%s'", (int)(strrchr(source, '/') - source),
             source, dir);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "pairs %lu join %lf load %lf", &peer.pairs, &peer.join_s, &peer.load_s) != 3)
            fprintf(stderr, "%s", line);
    if (f && pclose(f))
        peer = (struct peer){0};
    remove_csv(dir);
    return peer;
}

#endif
