/*
 * attach: turns the shim on and off while the program runs; `dovetail attach` and `detach` call it through the inspector.
 * Both answer with a text: "good: ", "none: " if there is nothing to end, or why not. Only the main thread and
 * workers that were started with the shim are followed.
 */
'use strict';

const KEY = Symbol.for('dovetail.1');
const settings = require('./settings.js');

function load(socket, service) {
  Object.assign(settings, {socket, service});
  return require('../index.js').status().error;
}

function tell(api) {
  return api.status().opentelemetry ? 'good: scopes of OpenTelemetry' :
    'good: OpenTelemetry is not registered yet: scopes begin when it is; own scopes at once';
}

exports.attach = (socket, service) => {
  const there = globalThis[KEY];
  if (there !== undefined && there._attach === undefined)
    return there.status().error || 'another version of dovetail is loaded in it';
  if (there !== undefined && there.status().active) return 'it is profiled already';
  const to = [socket || undefined, service || undefined];
  const failure = there === undefined ? load(...to) : there._attach(...to);
  if (failure) return failure;
  return tell(globalThis[KEY]);
};

exports.detach = () => {
  const there = globalThis[KEY];
  if (there === undefined || there._detach === undefined || !there.status().enabled) return 'none: it is not profiled';
  there._detach();
  return 'good: its hooks are gone, its events are closed';
};
