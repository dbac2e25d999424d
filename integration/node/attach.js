/*
 * An event loop with OpenTelemetry's spans, to attach to. On "look" at its standard input it prints what the shim has
 * left in the process.
 */
'use strict';

const api = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');
const {AsyncResource} = require('async_hooks');

new NodeTracerProvider().register();
const tracer = api.trace.getTracer('attach');
const context = globalThis[Symbol.for('opentelemetry.js.api.1')].context;
const plain = AsyncResource.prototype.runInAsyncScope;

if (process.argv[2] === 'handler') process.on('SIGUSR1', () => console.log('mine'));

function burn(ms) {
  for (const end = Date.now() + ms; Date.now() < end;);
}

setInterval(() => tracer.startActiveSpan('tick', async span => {
  burn(4);
  await null;
  burn(4);
  span.end();
}), 20);

function look() {
  const storage = context._asyncLocalStorage, shim = globalThis[Symbol.for('dovetail.1')];
  return {
    enabled: shim !== undefined && shim.status().enabled,
    wrapped: Object.hasOwn(storage, 'run') || Object.hasOwn(storage, 'enterWith') ||
      AsyncResource.prototype.runInAsyncScope !== plain,
    watched: Object.getOwnPropertyDescriptor(globalThis, Symbol.for('opentelemetry.js.api.1')).get !== undefined,
    timers: process.getActiveResourcesInfo().filter(name => name === 'Timeout').length,
  };
}

process.stdin.on('data', () => console.log(JSON.stringify(look())));
console.log('up');
