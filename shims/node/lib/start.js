/*
 * start: loads the native part, connects, and hooks this thread. All that may fail is told by status().
 */
'use strict';

const path = require('path');
const {Table} = require('./table.js');
const lane = require('./lane.js');
const hooks = require('./hooks.js');
const own = require('./own.js');

const MINIMUM = 18;
const LOOK_MS = 1000; // how often it looks whether the daemon is there

if (+process.versions.node.split('.')[0] < MINIMUM) throw new Error(`Node.js ${process.version} is too old`);
const native = require('../dovetail.node');
const failure = native.start(path.basename(process.argv[1] || process.execPath));

function start() {
  lane.start(native, new Table(native.state));
  hooks.install();
  setInterval(() => hooks.enable(native.active()), LOOK_MS).unref();
  return {
    scope: own.scope,
    label: own.label,
    traceparent: own.traceparent,
    status: () => ({
      enabled: true,
      active: native.active(),
      error: native.error(),
      opentelemetry: hooks.isBound(),
      resyncs: lane.counts.resyncs,
      misuse: own.counts.misuse,
    }),
    _current: native.current,
  };
}

module.exports = failure === undefined ? start() : require('./inert.js').because(failure);
