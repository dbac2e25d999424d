/*
 * The open scope is the current span's, at every place where a program can look: a real HTTP server whose handlers
 * await, call back, emit and bind in all ways, with OpenTelemetry's spans and own scopes mixed, on the main thread and in
 * a worker. Each check compares what core has open on this thread with the span that the code knows it works for.
 *
 *     node --require dovetail truth.js own|otel|mixed CHECKS
 */
'use strict';

const {AsyncLocalStorage, AsyncResource} = require('async_hooks');
const {EventEmitter, EventEmitterAsyncResource} = require('events');
const fs = require('fs');
const http = require('http');
const stream = require('stream');
const zlib = require('zlib');
const {Worker, isMainThread, workerData, parentPort} = require('worker_threads');
const dovetail = globalThis[Symbol.for('dovetail.1')];

const mode = isMainThread ? process.argv[2] : workerData.mode;
const least = isMainThread ? +process.argv[3] : workerData.least;
let checks = 0, wrong = 0;
const first = new Map(); // place -> times wrong

/* ---- scopes of both kinds; what one is known by is its span id, or null for none ---- */

const otel = mode === 'own' ? null : startOtel();

function startOtel() {
  const api = require('@opentelemetry/api');
  const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
  new NodeTracerProvider().register();
  return {api, tracer: api.trace.getTracer('truth')};
}

function usesOtel() {
  return mode === 'otel' || (mode === 'mixed' && Math.random() < 0.5);
}

/* Calls fn(span id) in a new scope. */
function within(name, fn) {
  if (usesOtel()) return otel.tracer.startActiveSpan(name, span => fn(span.spanContext().spanId));
  return dovetail.scope(name, () => fn(dovetail.traceparent().split('-')[2]));
}

/* Calls fn with nothing current. */
function outside(fn) {
  return root.runInAsyncScope(fn);
}
const root = new AsyncResource('truth');

function bind(fn) {
  return AsyncResource.bind(fn);
}

function check(id, place) {
  const is = dovetail._current();
  checks++;
  if ((is === undefined ? null : is[1]) === id) return;
  wrong++;
  first.set(place, (first.get(place) || 0) + 1);
}

/* ---- ways to go on later ---- */

const sleep = ms => new Promise(done => setTimeout(done, ms));
const emitter = new EventEmitter();

const ways = {
  async await(id) { await null; check(id, 'await'); },
  async timer(id) { await sleep(Math.random() * 2); check(id, 'timer'); },
  async file(id) { await fs.promises.readFile(__filename); check(id, 'file'); },
  immediate: id => new Promise(done => setImmediate(() => {
    check(id, 'immediate');
    process.nextTick(() => { check(id, 'tick'); done(); });
  })),
  pool: id => new Promise(done => zlib.gzip('x'.repeat(1000), () => { check(id, 'pool'); done(); })),
  callback: id => new Promise(done => fs.stat('/', () => { check(id, 'callback'); done(); })),
  async microtask(id) { queueMicrotask(() => check(id, 'microtask')); await Promise.all([sleep(1), sleep(0), null]); check(id, 'all'); },
  async rejected(id) { try { await Promise.reject(new Error('x')).finally(() => check(id, 'finally')); } catch { check(id, 'catch'); } },
  async thenable(id) { await {then(done) { check(id, 'then'); setImmediate(done); }}; check(id, 'thenable'); },
  async generator(id) {
    async function* steps() { for (let i = 0; i < 3; i++) { check(id, 'step'); await null; yield i; check(id, 'yield'); } }
    for await (const i of steps()) check(id, `generator ${i}`);
  },
  async resource(id) {
    const resource = new AsyncResource('truth');
    outside(() => { check(null, 'outside'); resource.runInAsyncScope(() => check(id, 'resource')); check(null, 'outside again'); });
    check(id, 'inside again');
  },
  bound: id => new Promise(done => {
    const fn = bind(() => { check(id, 'bound'); done(); });
    outside(() => setTimeout(() => { check(null, 'outside timer'); fn(); check(null, 'outside timer again'); }, 1));
    check(id, 'after bind');
  }),
  async snapshot(id) {
    if (!AsyncLocalStorage.snapshot) return;
    const run = AsyncLocalStorage.snapshot();
    outside(() => run(() => check(id, 'snapshot')));
    check(id, 'after snapshot');
  },
  async emitter(id) {
    const bus = new EventEmitterAsyncResource({name: 'truth'});
    bus.on('event', () => check(id, 'emitter resource'));
    outside(() => bus.emit('event'));
    emitter.once('event', () => check(id, 'emitter'));
    emitter.emit('event');
    check(id, 'after emit');
  },
  async stream(id) {
    const through = new stream.PassThrough();
    const source = stream.Readable.from(['a', 'b', 'c']);
    through.on('data', () => check(id, 'data'));
    await stream.promises.pipeline(source, through, async function*(chunks) { for await (const c of chunks) { check(id, 'chunk'); yield c; } },
      new stream.Writable({write(c, e, done) { check(id, 'write'); setImmediate(done); }}));
    check(id, 'pipeline');
  },
  async throws(id) { try { within('throws', () => { throw new Error('x'); }); } catch { check(id, 'thrown'); } },
  async interval(id) {
    await new Promise(done => { let n = 0; const t = setInterval(() => { check(id, 'interval'); if (++n === 3) { clearInterval(t); done(); } }, 1); });
    check(id, 'after interval');
  },
  async race(id) { await Promise.race([sleep(1), new Promise(done => setImmediate(done))]); check(id, 'race'); },
  async unawaited(id) { sleep(1).then(() => check(id, 'unawaited')); check(id, 'not awaited'); },
};
const names = Object.keys(ways);

async function request(depth, parent) {
  check(parent, 'before');
  await within(`depth ${depth}`, async id => {
    check(id, 'entered');
    await ways[names[Math.floor(Math.random() * names.length)]](id);
    check(id, 'after the way');
    if (depth < 3) {
      await Promise.all([request(depth + 1, id), request(depth + 1, id)]);
      check(id, 'after both');
      const later = request(depth + 1, id);
      check(id, 'while one runs');
      await later;
    }
    check(id, 'leaving');
  });
  check(parent, 'after');
}

async function serve() {
  const server = http.createServer((req, res) => {
    check(null, 'request');
    within('request', async id => {
      req.resume().on('end', () => {});
      await request(1, id);
      check(id, 'responding');
      res.end('ok', () => {});
      check(id, 'responded');
    });
    check(null, 'request left');
  });
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  const {port} = server.address(), agent = new http.Agent({keepAlive: true, maxSockets: 30});
  const get = () => new Promise((done, failed) => http.get({port, host: '127.0.0.1', agent},
    res => res.resume().on('end', done)).on('error', failed));
  while (checks < least) await Promise.all(Array.from({length: 30}, get));
  agent.destroy();
  server.close();
}

async function main() {
  while (!dovetail.status().active) await sleep(10);
  const worker = isMainThread && new Worker(__filename, {workerData: {mode, least: least / 4}});
  const ended = worker && new Promise(done => worker.on('message', done));
  await serve();
  const mine = {checks, wrong, first: [...first], resyncs: dovetail.status().resyncs};
  if (!isMainThread) return parentPort.postMessage(mine);
  console.log(JSON.stringify({main: mine, worker: await ended}));
}

main();
