// The peer of bench_join: DuckDB finds the same pairs (sample, scope around it) by ASOF joins, one for each nesting depth,
// on one thread. Usage: node duckdb_asof.js DIR, where DIR holds scopes.csv and samples.csv. Installs @duckdb/node-api in DIR
// with npm if it is not there. Prints "pairs SECONDS N" (CPU time, the best of three, join only, tables in memory).
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

const asof = `
    SELECT count(*) FROM (SELECT s.tid, s.t, d.depth FROM samples s, (SELECT unnest(range(5))::INTEGER depth) d) x
    ASOF JOIN scopes i ON x.tid = i.tid AND x.depth = i.depth AND x.t > i.open WHERE x.t <= i.close`;

async function main() {
    const db = await DuckDBInstance.create(':memory:');
    const c = await db.connect();
    await c.run('SET threads = 1');
    await c.run(`CREATE TABLE scopes AS SELECT tid::INTEGER tid, depth::INTEGER depth, open::BIGINT open,
                 close::BIGINT AS close FROM read_csv('${dir}/scopes.csv')`);
    await c.run(`CREATE TABLE samples AS SELECT tid::INTEGER tid, t::BIGINT t FROM read_csv('${dir}/samples.csv')`);
    let best = Infinity, pairs = 0;
    for (let i = 0; i < 3; i++) {
        const begin = process.cpuUsage();
        const rows = await c.runAndReadAll(asof);
        const used = process.cpuUsage(begin);
        best = Math.min(best, (used.user + used.system) / 1e6);
        pairs = rows.getRows()[0][0];
    }
    console.log(`pairs ${best.toFixed(4)} ${pairs}`);
}

main().catch((e) => {
    console.error(String(e));
    process.exit(1);
});
