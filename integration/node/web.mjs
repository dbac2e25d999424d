/*
 * A web service as ES modules: Express, whose requests @opentelemetry/instrumentation-http makes spans of. It knows nothing
 * of Dovetail.
 *
 *     web.mjs SECONDS
 *
 * Trace k works in a function of its own, work_k, in a handler that awaits between its stretches; requests come over plain
 * sockets, of which no tracer knows, with the traceparent of their trace. orphan() runs in no request. Prints "TRACE NS" a line, as
 * mix.js does.
 */
import {createRequire} from 'node:module';
import {fileURLToPath} from 'node:url';
import {Worker, isMainThread, parentPort, workerData} from 'node:worker_threads';
import net from 'node:net';

const TRACES = 40, CONNECTIONS = 8;
const hex = (k, digits) => (k + 1).toString(16).padStart(digits, '0');
const random = n => Math.floor(Math.random() * n);

/* ---- the clients: a thread of their own ---- */

function ask(port, k) {
  return new Promise((done, failed) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET /work/${k} HTTP/1.1\r\nHost: localhost\r\n` +
      `Connection: close\r\ntraceparent: 00-${hex(k, 32)}-${hex(k, 16)}-01\r\n\r\n`));
    let text = '';
    socket.on('data', data => { text += data; });
    socket.on('end', () => text.startsWith('HTTP/1.1 200') ? done() : failed(new Error(text)));
    socket.on('error', failed);
  });
}

async function clients({port, deadline}) {
  await Promise.all(Array.from({length: CONNECTIONS}, async () => {
    while (Date.now() < deadline) await ask(port, random(TRACES));
  }));
  parentPort.postMessage('done');
}

/* ---- the service ---- */

const spent = new Array(TRACES).fill(0);
const works = Array.from({length: TRACES}, (_, k) =>
  new Function('n', `return function work_${k}(n) { let x = 0; for (let i = 0; i < n; i++) x = (x + i * i % 7) | 0; return x; }`)());

function orphan(n) {
  let x = 0;
  for (let i = 0; i < n; i++) x = (x + i) | 0;
  return x;
}

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

async function answer(req, res) {
  const k = +req.params.k;
  work(k);
  await new Promise(done => setTimeout(done, random(3)));
  work(k);
  await null;
  work(k);
  res.end();
}

function startOtel() {
  const require = createRequire(import.meta.url);
  const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
  const {registerInstrumentations} = require('@opentelemetry/instrumentation');
  const {HttpInstrumentation} = require('@opentelemetry/instrumentation-http');
  new NodeTracerProvider().register();
  registerInstrumentations({instrumentations: [new HttpInstrumentation()]});
  return require('express'); // import does not look into NODE_PATH
}

async function serve(seconds) {
  const server = startOtel()().get('/work/:k', answer).listen(0, '127.0.0.1');
  await new Promise(done => server.on('listening', done));
  const between = setInterval(() => orphan(20000), 5);
  const workerData = {port: server.address().port, deadline: Date.now() + seconds * 1000};
  await new Promise(done => new Worker(fileURLToPath(import.meta.url), {workerData}).on('message', done));
  clearInterval(between);
  server.close();
  for (let k = 0; k < TRACES; k++) console.log(hex(k, 32), Math.round(spent[k] * stepNs(k)));
}

await (isMainThread ? serve(+process.argv[2]) : clients(workerData));
