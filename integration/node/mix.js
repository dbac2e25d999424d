/*
 * A Node program that knows which trace each stretch of its CPU time belongs to.
 *
 *     mix.js own|otel|mixed SECONDS
 *
 * Each trace k works in a function of its own, work_k: a sample with work_k outside trace k is a wrong one. orphan() runs in no
 * scope and must be in no trace. Requests interleave by promises, timers, streams, emitters and bound functions, on the
 * main thread and in a worker. Prints "TRACE NS" a line: steps of work, by what one takes in that trace's function and thread, timed
 * at the end (how the compiler places a loop makes it some percent faster or slower than its copies).
 */
'use strict';

const {AsyncResource} = require('async_hooks');
const {EventEmitter} = require('events');
const {Readable} = require('stream');
const {Worker, isMainThread, workerData, parentPort} = require('worker_threads');
const dovetail = globalThis[Symbol.for('dovetail.1')];

const TRACES = 40, TASKS = 16;
const mode = isMainThread ? process.argv[2] : workerData.mode;
const seconds = isMainThread ? +process.argv[3] : workerData.seconds;
const spent = new Array(TRACES).fill(0);
let deadline;
const root = new AsyncResource('mix');

const works = Array.from({length: TRACES}, (_, k) =>
  new Function('n', `return function work_${k}(n) { let x = 0; for (let i = 0; i < n; i++) x = (x + i * i % 7) | 0; return x; }`)());

function orphan(n) {
  let x = 0;
  for (let i = 0; i < n; i++) x = (x + i) | 0;
  return x;
}

const random = n => Math.floor(Math.random() * n);
const hex = (k, digits) => (k + 1).toString(16).padStart(digits, '0');
const sleep = ms => new Promise(done => setTimeout(done, ms));

function work(k) {
  const n = 10000 + random(200000);
  works[k](n);
  spent[k] += n;
}

function stepNs(k) {
  let best = Infinity;
  for (let i = 0; i < 9; i++) {
    const begin = process.hrtime.bigint();
    works[k](100000);
    best = Math.min(best, Number(process.hrtime.bigint() - begin) / 100000);
  }
  return best;
}

/* ---- scopes ---- */

function startOtel() {
  const api = require('@opentelemetry/api');
  const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
  new NodeTracerProvider().register();
  return {api, tracer: api.trace.getTracer('mix')};
}
const otel = mode === 'own' ? null : startOtel();
const isOtel = k => mode === 'otel' || (mode === 'mixed' && k % 2 === 1);

function trace(k, fn) {
  if (!isOtel(k)) return dovetail.scope('request', {traceparent: `00-${hex(k, 32)}-${hex(k, 16)}-01`, tenant: `t${k % 3}`}, fn);
  const {api, tracer} = otel;
  const remote = api.trace.setSpanContext(api.ROOT_CONTEXT, {traceId: hex(k, 32), spanId: hex(k, 16), traceFlags: 1, isRemote: true});
  return tracer.startActiveSpan('request', {}, remote, async span => {
    try {
      return await fn();
    } finally {
      span.end();
    }
  });
}

/* An own scope may lie in a span; a span in an own scope would begin a trace of its own. */
function child(k, name, fn) {
  return isOtel(k) && random(2) === 0 ? otel.tracer.startActiveSpan(name, fn) : dovetail.scope(name, fn);
}

/* ---- work ---- */

async function step(k) {
  return child(k, 'inner', async () => {
    work(k);
    await null;
    work(k);
    await sleep(Math.random());
    work(k);
  });
}

async function emit(k) {
  const bus = new EventEmitter();
  bus.on('event', () => work(k));
  bus.emit('event');
  const bound = AsyncResource.bind(() => work(k));
  await new Promise(done => root.runInAsyncScope(() => setImmediate(() => { orphan(2000); bound(); orphan(2000); done(); })));
}

async function pipe(k) {
  for await (const chunk of Readable.from(['a', 'b', 'c'])) if (chunk) work(k);
}

async function task() {
  while (Date.now() < deadline) {
    const k = random(TRACES);
    await trace(k, async () => {
      for (let i = random(5); i >= 0; i--) {
        work(k);
        await null;
        if (random(3) === 0) await step(k);
        if (random(8) === 0) await Promise.all([step(k), step(k), step(k)]);
        if (random(6) === 0) await emit(k);
        if (random(6) === 0) await pipe(k);
        process.nextTick(() => work(k));
        queueMicrotask(() => work(k));
      }
    });
    root.runInAsyncScope(() => orphan(random(20000)));
    await sleep(0);
  }
}

async function main() {
  while (!dovetail.status().active) await sleep(5);
  deadline = Date.now() + seconds * 1000;
  const worker = isMainThread && new Worker(__filename, {workerData: {mode, seconds}});
  const other = worker && new Promise(done => worker.on('message', done));
  await Promise.all(Array.from({length: TASKS}, () => root.runInAsyncScope(task)));
  await sleep(20);
  const ns = spent.map((steps, k) => steps * stepNs(k));
  if (!isMainThread) return parentPort.postMessage(ns);
  const more = await other;
  for (let k = 0; k < TRACES; k++) console.log(hex(k, 32), Math.round(ns[k] + more[k]));
}

main();
