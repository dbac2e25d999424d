// The peer of bench_join: DuckDB finds the same pairs (sample, scope around it) by ASOF joins, one for each nesting depth,
// on one thread. Usage: node duckdb_asof.js DIR, where DIR holds scopes.csv and samples.csv. Installs @duckdb/node-api in DIR
// with npm if it is not there. Prints "pairs N join SECONDS load SECONDS", each the least CPU time of three:
//   join   tables in memory
//   load   of the same rows, with ids and name, into a new table, from memory of DuckDB's own form: nothing is parsed, which
//          is the least that any way in (appender, Arrow, Parquet) can cost
'use strict';
const fs = require('fs');
const path = require('path');
const { execFileSync } = require('child_process');

const dir = path.resolve(process.argv[2]);
const modules = path.join(dir, 'node_modules', '@duckdb', 'node-api');
if (!fs.existsSync(modules)) {
    fs.writeFileSync(path.join(dir, 'package.json'), '{"private": true}\n');
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--silent', '@duckdb/node-api'],
                 { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });
}
const { DuckDBInstance } = require(modules);

// What a scope is to DuckDB: ids as random numbers of their size, the name as a reference.
const scopes = `
    SELECT tid::INTEGER tid, depth::INTEGER depth, open::BIGINT open, close::BIGINT AS close,
           (hash(root) >> 2)::HUGEINT * 9223372036854775783 trace, hash(tid, open, depth) span, hash(tid, open, depth + 1) parent,
           depth::UTINYINT AS name
    FROM read_csv('${dir}/scopes.csv')`;
const asof = `
    SELECT count(*) FROM (SELECT s.tid, s.t, d.depth FROM samples s, (SELECT unnest(range(5))::INTEGER depth) d) x
    ASOF JOIN scopes i ON x.tid = i.tid AND x.depth = i.depth AND x.t > i.open WHERE x.t <= i.close`;

async function least(run) {
    let best = Infinity;
    for (let i = 0; i < 3; i++) {
        const begin = process.cpuUsage();
        await run();
        const used = process.cpuUsage(begin);
        best = Math.min(best, (used.user + used.system) / 1e6);
    }
    return best.toFixed(4);
}

async function main() {
    const db = await DuckDBInstance.create(':memory:');
    const c = await db.connect();
    let pairs = 0;
    await c.run('SET threads = 1');
    await c.run(`CREATE TABLE scopes AS ${scopes}`);
    await c.run(`CREATE TABLE samples AS SELECT tid::INTEGER tid, t::BIGINT t FROM read_csv('${dir}/samples.csv')`);
    const load = await least(async () => {
        await c.run('CREATE OR REPLACE TABLE scopes_in AS FROM scopes');
        await c.run('CREATE OR REPLACE TABLE samples_in AS FROM samples');
    });
    await c.run('DROP TABLE scopes_in');
    await c.run('DROP TABLE samples_in');
    const join = await least(async () => { pairs = (await c.runAndReadAll(asof)).getRows()[0][0]; });
    console.log(`pairs ${pairs} join ${join} load ${load}`);
}

main().catch((e) => {
    console.error(String(e));
    process.exit(1);
});
