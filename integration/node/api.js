/*
 * Spans and own scopes whose names, labels, parents and lines are known; asserts what can be seen from inside, and prints "good".
 */
'use strict';

const assert = require('assert');
const api = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
const dovetail = globalThis[Symbol.for('dovetail.1')];

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('api');
const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

function burn(ms) {
  const end = Date.now() + ms;
  while (Date.now() < end);
}

function span() {
  const bag = api.propagation.createBaggage({tenant: {value: 'acme'}, secret: {value: 'x'}});
  const context = api.propagation.setBaggage(api.ROOT_CONTEXT, bag);
  tracer.startActiveSpan('GET', {}, context, s => {
    burn(60);
    s.updateName('GET /orders/:id');
    dovetail.label({late: 'yes'});
    if (dovetail.status().enabled) assert.strictEqual(dovetail.traceparent().split('-')[2], s.spanContext().spanId);
    s.end();
  });
}

async function own() {
  const result = await dovetail.scope('own', {plan: 'gold', always: true}, async () => {
    const outer = dovetail.traceparent();
    burn(60);
    dovetail.label({late: 1});
    await null;
    if (outer) assert.strictEqual(dovetail.traceparent(), outer);
    return dovetail.scope('inner', () => {
      if (outer) assert.strictEqual(dovetail.traceparent().split('-')[1], outer.split('-')[1]);
      return 7;
    });
  });
  assert.strictEqual(result, 7);
  assert.strictEqual(dovetail.traceparent(), undefined);
  assert.throws(() => dovetail.scope('throws', () => { throw new RangeError('mine'); }), RangeError);
}

function incoming() {
  dovetail.scope('incoming', {traceparent: PARENT, always: true}, () => {
    burn(60);
    if (dovetail.status().enabled) assert.ok(dovetail.traceparent().startsWith(PARENT.slice(0, 36)));
  });
  dovetail.scope('bad', {traceparent: 'nonsense', label: Symbol('x'), links: [null]}, () => {});
}

/* Runs once, so it is interpreted: its line is that of the call it is in. */
function twice() {
  burn(20);
  burn(90); // most of its time
  burn(20);
}

async function main() {
  for (let i = 0; i < 100 && dovetail.status().enabled && !dovetail.status().active && i * 10 < 500; i++)
    await new Promise(done => setTimeout(done, 10));
  span();
  await own();
  incoming();
  dovetail.scope('twice', {always: true}, twice);
  await new Promise(done => setTimeout(done, 1200)); // over the look for a daemon
  await own();
  console.log('good');
}

main();
