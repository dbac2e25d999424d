/*
 * CPU time of one request of a small HTTP server with OpenTelemetry, its client included: prints microseconds as JSON, the
 * best of several rounds and their median.
 *
 *     server.js [pprof]     pprof: with @datadog/pprof's wall profiler at 99 Hz
 */
'use strict';

const http = require('http');
const api = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('bench');
const ROUNDS = 14, REQUESTS = 400, CONNECTIONS = 20;

if (process.argv[2] === 'pprof') {
  require('@datadog/pprof').time.start({intervalMicros: 10101, durationMillis: 600000, withContexts: false, lineNumbers: false});
}

function handle(req, res) {
  tracer.startActiveSpan('request', async span => {
    const rows = await tracer.startActiveSpan('query', async inner => {
      await new Promise(done => setImmediate(done));
      const list = Array.from({length: 200}, (_, i) => ({id: i, name: `item ${i}`, price: i * 1.5}));
      inner.end();
      return list;
    });
    for (let i = 0; i < 10; i++) await null;
    res.end(JSON.stringify(rows));
    span.end();
  });
}

const server = http.createServer(handle).listen(0, '127.0.0.1', async () => {
  const {port} = server.address(), agent = new http.Agent({keepAlive: true, maxSockets: CONNECTIONS});
  const get = () => new Promise((done, failed) => http.get({port, host: '127.0.0.1', agent},
    res => res.resume().on('end', done)).on('error', failed));
  const rounds = [];
  for (let r = 0; r < ROUNDS; r++) {
    const begin = process.cpuUsage();
    for (let i = 0; i < REQUESTS; i += CONNECTIONS) await Promise.all(Array.from({length: CONNECTIONS}, get));
    const used = process.cpuUsage(begin);
    if (r > 3) rounds.push((used.user + used.system) / REQUESTS);
  }
  rounds.sort((a, b) => a - b);
  console.log(JSON.stringify({best_us: Math.round(rounds[0]), median_us: Math.round(rounds[rounds.length >> 1])}));
  process.exit(0);
});
