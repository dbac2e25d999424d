/*
 * start: loads the native part, connects, and hooks this thread; and undoes it. All that may fail is told by status().
 */
'use strict';

const fs = require('fs');
const path = require('path');
const {Table} = require('./table.js');
const lane = require('./lane.js');
const hooks = require('./hooks.js');
const own = require('./own.js');
const settings = require('./settings.js');

const MINIMUM = 18;
const LOOK_MS = 1000; // how often it looks whether the daemon is there

if (+process.versions.node.split('.')[0] < MINIMUM) throw new Error(`Node.js ${process.version} is too old`);
const native = load();

let look = null; // while it is on

/* Beside the package's JavaScript as CMake builds and installs it, or where node-gyp builds it. */
function load() {
  const built = path.join(__dirname, '../build/Release/dovetail.node');
  return require(fs.existsSync(built) ? built : '../dovetail.node');
}

/* Undefined, or why not. */
function attach(socket, service) {
  if (look !== null) detach();
  const failure = native.start(path.basename(process.argv[1] || process.execPath), socket, service);
  if (failure !== undefined) return failure;
  hooks.install();
  look = setInterval(() => hooks.enable(native.active()), LOOK_MS).unref();
  return undefined;
}

function detach() {
  clearInterval(look);
  look = null;
  hooks.uninstall();
  native.stop();
}

lane.start(native, new Table(native.state));
const failure = attach(settings.socket, settings.service);

const api = {
  scope: own.scope,
  label: own.label,
  traceparent: own.traceparent,
  status: () => ({
    enabled: look !== null,
    active: native.active(),
    error: native.error(),
    opentelemetry: hooks.isBound(),
    resyncs: lane.counts.resyncs,
    misuse: own.counts.misuse,
  }),
  _current: native.current,
  _attach: attach,
  _detach: detach,
};

module.exports = failure === undefined ? api : require('./inert.js').because(failure);
