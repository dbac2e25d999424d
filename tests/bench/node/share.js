/*
 * Interleaved requests on one thread, each working in a function of its own: whose samples are in the right request?
 *
 *     share.js dovetail|pprof SECONDS
 *
 * pprof: @datadog/pprof's wall profiler with contexts at 99 Hz, told of the request that runs as its maker's tracer does it: in an
 * async_hooks `before`, or, where Node.js keeps contexts in a frame of V8, by the profiler itself (useCPED). Prints JSON: ms of
 * work, and for pprof samples of the work functions with the right request, with a wrong one, with none.
 */
'use strict';

const {AsyncLocalStorage, createHook} = require('async_hooks');
const api = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('share');
const TRACES = 40, TASKS = 16, INTERVAL_US = 10101;
const usesPprof = process.argv[2] === 'pprof', seconds = +process.argv[3];
const random = n => Math.floor(Math.random() * n);
const sleep = ms => new Promise(done => setTimeout(done, ms));
const hex = (k, digits) => (k + 1).toString(16).padStart(digits, '0');
const works = Array.from({length: TRACES}, (_, k) =>
  new Function('n', `return function work_${k}(n) { let x = 0; for (let i = 0; i < n; i++) x = (x + i * i % 7) | 0; return x; }`)());
let workNs = 0n;

function work(k) {
  const begin = process.hrtime.bigint();
  works[k](10000 + random(200000));
  workNs += process.hrtime.bigint() - begin;
}

/* ---- pprof ---- */

const time = usesPprof && require('@datadog/pprof').time;
const current = new AsyncLocalStorage();
const inFrame = +process.versions.node.split('.')[0] >= 24;

function startPprof() {
  time.start({intervalMicros: INTERVAL_US, durationMillis: seconds * 2000, withContexts: true, lineNumbers: false, useCPED: inFrame});
  if (!inFrame) createHook({before() { time.setContext(current.getStore()); }}).enable();
}

function withContext(k, fn) {
  return usesPprof ? current.run({k}, () => { time.setContext({k}); return fn(); }) : fn();
}

function judgePprof() {
  const profile = time.stop(false, ({context}) => context && context.context ? {k: String(context.context.k)} : {});
  const text = profile.stringTable.strings, functions = new Map(profile.function.map(f => [Number(f.id), text[Number(f.name)]]));
  const names = new Map(profile.location.map(l => [Number(l.id), functions.get(Number(l.line[0].functionId))]));
  const found = {right: 0, wrong: 0, none: 0};
  for (const sample of profile.sample) {
    const own = sample.locationId.map(id => names.get(Number(id))).find(name => name.startsWith('work_'));
    if (own === undefined) continue;
    const label = sample.label.find(l => text[Number(l.key)] === 'k');
    found[!label ? 'none' : text[Number(label.str)] === own.slice(5) ? 'right' : 'wrong'] += Number(sample.value[0]);
  }
  return found;
}

/* ---- the program ---- */

function trace(k, fn) {
  const remote = api.trace.setSpanContext(api.ROOT_CONTEXT, {traceId: hex(k, 32), spanId: hex(k, 16), traceFlags: 1, isRemote: true});
  return tracer.startActiveSpan('request', {}, remote, span => withContext(k, async () => {
    await fn();
    span.end();
  }));
}

async function task(deadline) {
  while (Date.now() < deadline) {
    const k = random(TRACES);
    await trace(k, async () => {
      for (let i = random(5); i >= 0; i--) {
        work(k);
        await null;
        work(k);
        await sleep(random(3));
        work(k);
      }
    });
    await sleep(0);
  }
}

async function main() {
  const dovetail = globalThis[Symbol.for('dovetail.1')];
  while (dovetail && !dovetail.status().active) await sleep(10);
  if (usesPprof) startPprof();
  const deadline = Date.now() + seconds * 1000;
  await Promise.all(Array.from({length: TASKS}, () => task(deadline)));
  console.log(JSON.stringify({work_ms: Number(workNs / 1000000n), ...(usesPprof ? judgePprof() : {})}));
  process.exit(0);
}

main();
