/*
 * hooks: tells lane.js when the current context changes. Callbacks begin and end by async_hooks' before and after;
 * in between, OpenTelemetry's AsyncLocalStorage changes by its run and enterWith, which are wrapped on that one instance.
 * OpenTelemetry's API keeps its context manager in a global; an accessor there tells when it comes.
 */
'use strict';

const {createHook, executionAsyncResource, AsyncResource} = require('async_hooks');
const {promiseHooks} = require('v8');
const lane = require('./lane.js');
const {ofContext} = require('./mark.js');
const own = require('./own.js');

const API = Symbol.for('opentelemetry.js.api.1');
const HAS_FRAMES = +process.versions.node.split('.')[0] >= 24 ||
  process.execArgv.concat((process.env.NODE_OPTIONS || '').split(' ')).includes('--experimental-async-context-frame');

let storage = null; // OpenTelemetry's AsyncLocalStorage
let manager = null;
const undo = []; // how all that was wrapped is put back, where nobody wrapped it again

/* Replaces object[key], an own or inherited method. */
function replace(object, key, method) {
  const before = Object.getOwnPropertyDescriptor(object, key);
  object[key] = method;
  undo.push(() => {
    if (object[key] !== method) return;
    if (before === undefined) delete object[key];
    else Object.defineProperty(object, key, before);
  });
}

/* The mark of what is current now, by OpenTelemetry and by own scopes: the innermost of both. */
function markNow() {
  const mark = storage !== null ? ofContext(storage.getStore()) : null;
  return own.isUsed() ? own.inner(mark) : mark;
}

/* ---- callbacks ---- */

function before(id) {
  lane.enter(markNow(), id);
}

function after(id) {
  if (executionAsyncResource() instanceof Promise) lane.leaveMicrotask(id);
  else lane.leave(id);
}

/* Whether async_hooks can leave promises out: an option it knows it also checks. */
function canLeaveOutPromises() {
  try {
    createHook({trackPromises: 1});
    return false;
  } catch {
    return true;
  }
}

/* V8's own hooks cost a third of async_hooks' for promises. Where AsyncLocalStorage itself goes by async_hooks they would come on
 * top. */
function hookCallbacks() {
  const apart = HAS_FRAMES && canLeaveOutPromises();
  const hook = createHook(apart ? {before, after: lane.leave, trackPromises: false} : {before, after}).enable();
  const stop = apart ? promiseHooks.createHook({before, after: lane.leaveMicrotask}) : () => {};
  return () => {
    stop();
    hook.disable();
  };
}

/* On AsyncContextFrame `before` runs before the resource's context is there. */
function wrapRunInAsyncScope() {
  const original = AsyncResource.prototype.runInAsyncScope;
  replace(AsyncResource.prototype, 'runInAsyncScope', function runInAsyncScope(fn, thisArg, ...args) {
    return original.call(this, function(...inner) {
      lane.change(markNow());
      return Reflect.apply(fn, this, inner);
    }, thisArg, ...args);
  });
}

/* ---- OpenTelemetry ---- */

function bind(contextManager) {
  const als = contextManager && contextManager._asyncLocalStorage;
  if (!als || typeof als.run !== 'function' || manager === contextManager) return;
  const {run, enterWith} = als;
  replace(als, 'run', function(store, fn, ...args) {
    const level = lane.level();
    lane.enter(own.isUsed() ? own.inner(ofContext(store)) : ofContext(store), lane.SYNC);
    try {
      return run.call(this, store, fn, ...args);
    } finally {
      lane.leaveTo(level);
    }
  });
  replace(als, 'enterWith', function(store) {
    enterWith.call(this, store);
    changed();
  });
  manager = contextManager;
  storage = als;
}

/* enterWith outside of all callbacks lasts until the main script ends. */
function changed() {
  if (lane.level() === 0) process.nextTick(() => lane.level() <= 1 && lane.restart());
  lane.change(markNow());
}

/* Makes object[key] an accessor that tells of each value set. */
function watch(object, key, told) {
  let value = object[key];
  const get = () => value;
  if (value !== undefined) told(value);
  Object.defineProperty(object, key, {
    configurable: true,
    enumerable: true,
    get,
    set(v) {
      value = v;
      told(v);
    },
  });
  undo.push(() => {
    if (Object.getOwnPropertyDescriptor(object, key)?.get !== get) return;
    delete object[key];
    if (value !== undefined) object[key] = value;
  });
}

function watchApi(api) {
  if (api && typeof api === 'object' && !Object.getOwnPropertyDescriptor(api, 'context')?.get) watch(api, 'context', bind);
}

let unhook = null;

/* Without a daemon the application's callbacks cost nothing. In mid-callback: what began before is not told of. */
function enable(on) {
  if (on === (unhook !== null)) return;
  lane.leaveTo(0);
  if (on) {
    unhook = hookCallbacks();
  } else {
    unhook();
    unhook = null;
  }
}

function install() {
  watch(globalThis, API, watchApi);
  if (HAS_FRAMES) wrapRunInAsyncScope();
  enable(true);
}

function uninstall() {
  enable(false);
  while (undo.length > 0) undo.pop()();
  storage = manager = null;
}

module.exports = {install, uninstall, enable, markNow, isBound: () => storage !== null};
