/*
 * own: scopes of the application's own, in an AsyncLocalStorage of ours. Its store is the scope's mark; `span` there is
 * OpenTelemetry's span around it, so that the innermost of both can be told.
 */
'use strict';

const {AsyncLocalStorage} = require('async_hooks');
const {randomFillSync} = require('crypto');
const lane = require('./lane.js');
const {Mark, setLabels, ALWAYS, ROOT, REMOTE_PARENT, UNSAMPLED, SHARED} = require('./mark.js');

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MAX_LINKS = 64;

let storage = null; // made at the first scope: it costs each promise
const counts = {misuse: 0};
const random = Buffer.alloc(4096);
let randomAt = random.length;

function randomHex(bytes) {
  if (randomAt + bytes > random.length) {
    randomFillSync(random);
    randomAt = 0;
  }
  const hex = random.toString('hex', randomAt, randomAt + bytes);
  randomAt += bytes;
  return hex;
}

function parse(header) {
  const found = typeof header === 'string' ? TRACEPARENT.exec(header) : null;
  if (found === null) counts.misuse++;
  return found;
}

function isUsed() {
  return storage !== null;
}

/* The innermost of the own scope that is current and a mark of OpenTelemetry's. */
function inner(mark) {
  const scope = storage.getStore();
  if (scope === undefined) return mark;
  return mark === null || scope.span === mark.span ? scope : mark;
}

/* ---- opening ---- */

function readLinks(mark, links) {
  let text = '';
  for (const link of Array.from(links).slice(0, MAX_LINKS)) {
    const found = parse(link);
    if (found !== null) text += found[1];
  }
  if (text === '') return;
  mark.links = text;
  mark.flags |= SHARED;
}

function readOptions(mark, options) {
  const {traceparent, always, links, ...labels} = options;
  if (always) mark.flags |= ALWAYS;
  if (links) readLinks(mark, links);
  setLabels(mark, labels);
}

function make(name, options, outer) {
  const remote = options && options.traceparent !== undefined ? parse(options.traceparent) : null;
  let mark;
  if (remote !== null)
    mark = new Mark(remote[1], randomHex(8), remote[2], REMOTE_PARENT | (parseInt(remote[3], 16) & 1 ? 0 : UNSAMPLED));
  else if (outer !== null)
    mark = new Mark(outer.traceId, randomHex(8), outer.spanId || outer.parentId, outer.flags & UNSAMPLED);
  else
    mark = new Mark(randomHex(16), randomHex(8), '', ROOT);
  mark.own = true;
  mark.name = String(name);
  if (options) readOptions(mark, options);
  return mark;
}

function scope(name, options, fn) {
  if (fn === undefined) [options, fn] = [undefined, options];
  let mark, level;
  try {
    const {markNow} = require('./hooks.js');
    const outer = markNow();
    mark = make(name, options, outer);
    mark.span = outer === null ? undefined : outer.span;
    storage ||= new AsyncLocalStorage();
    level = lane.level();
    lane.enter(mark, lane.SYNC);
  } catch {
    counts.misuse++; // a label that cannot be made a string, and the like
    return fn();
  }
  try {
    return storage.run(mark, fn);
  } finally {
    lane.leaveTo(level);
  }
}

/* ---- what is current ---- */

function label(labels) {
  try {
    const mark = require('./hooks.js').markNow();
    if (mark !== null) setLabels(mark, labels);
  } catch {
    counts.misuse++;
  }
}

function traceparent() {
  const mark = require('./hooks.js').markNow();
  if (mark === null) return undefined;
  return `00-${mark.traceId}-${mark.spanId || mark.parentId}-${mark.flags & UNSAMPLED ? '00' : '01'}`;
}

module.exports = {scope, label, traceparent, isUsed, inner, counts};
