/*
 * Dovetail: says which request this thread is working for, so that a profile can be cut by trace.
 *
 *     dovetail.scope('checkout', {tenant: 'acme', traceparent: header}, () => { ... });
 *
 * With OpenTelemetry nothing is needed but the load (`dovetail run`, or --require dovetail): current spans are
 * scopes. With no daemon all of this does nothing, cheaply. Nothing here throws into the application:
 * dovetail.status() tells.
 */
'use strict';

const KEY = Symbol.for('dovetail.1'); // loaded twice, from two places, it must hook once

if (!globalThis[KEY]) {
  let api;
  try {
    api = require('./lib/start.js');
  } catch (error) {
    api = require('./lib/inert.js').because(error);
  }
  Object.defineProperty(globalThis, KEY, {value: api, configurable: true});
}
module.exports = globalThis[KEY];
