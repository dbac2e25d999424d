/*
 * Nanoseconds of one await inside an OpenTelemetry span, of one span, and of one AsyncLocalStorage.run: prints them as
 * JSON, the best of many rounds each, which are short, so that some of them are not disturbed.
 */
'use strict';

const api = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
const {AsyncLocalStorage} = require('async_hooks');

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('bench');
const ROUNDS = 300, AWAITS = 2000, SPANS = 500, RUNS = 5000;

async function best(n, round) {
  let least = Infinity;
  for (let i = 0; i < ROUNDS; i++) {
    const begin = process.hrtime.bigint();
    await round(n);
    least = Math.min(least, Number(process.hrtime.bigint() - begin) / n);
  }
  return least;
}

const hops = n => tracer.startActiveSpan('hops', async span => {
  for (let i = 0; i < n; i++) await null;
  span.end();
});

async function spans(n) {
  for (let i = 0; i < n; i++) tracer.startActiveSpan('span', span => span.end());
}

const other = new AsyncLocalStorage();
async function runs(n) {
  for (let i = 0; i < n; i++) other.run(i, () => i);
}

async function main() {
  const dovetail = globalThis[Symbol.for('dovetail.1')];
  while (dovetail && !dovetail.status().active) await new Promise(done => setTimeout(done, 10));
  console.log(JSON.stringify({hop: await best(AWAITS, hops), span: await best(SPANS, spans), run: await best(RUNS, runs)}));
}

main();
