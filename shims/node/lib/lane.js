/*
 * lane: which scopes this thread has open. A level is a stretch of running with one context: a callback between
 * async_hooks' before and after, or a function within AsyncLocalStorage's run. At each level at most one mark is current;
 * levels nest, and the scope of an inner level lies inside the outer's. A level without a mark inside one with a mark
 * hides: the scopes around it close for its time.
 *
 * Invariant of a level that was entered with mark `before`: current === before and it opened nothing; or it opened one
 * scope, current's; or current is null and it hides.
 *
 * A microtask's scope lingers after it: if the next one has the same mark, it goes on, and a chain of awaits costs no native
 * calls. Any other callback ends it, and so does lane.c when the microtasks are through: nothing else runs before.
 */
'use strict';

const {labelsOf} = require('./mark.js');

const ARG = 0, KEEP = 1, NAME = 2, LINGERS = 3, DRAINS = 4; // lane.h
const SYNC = -1; // the id of a level that is not a callback
const MAX_LEVELS = 100000, MAX_NAMES = 4096;

let native, table, words;
let current = null;
let n = 0;                // levels
const befores = [];       // [n]
const ids = [];           // [n] async ids, or promises
const open = [];          // marks of the scopes that are open or hidden
const hides = [];         // for each hiding level: where the scopes that were visible before it begin in open
let visible = 0;          // open[visible, ...) have scopes
let lingering = null;     // the only mark in open, while there is no level; words[LINGERS] is 0 once its scope is closed
const names = new Map();
const counts = {resyncs: 0};

function start(addon, shared) {
  native = addon;
  table = shared;
  words = shared.words;
  native.onKept(endLingering);
}

/* ---- single scopes ---- */

function nameId(text) {
  let id = names.get(text);
  if (id === undefined) {
    if (names.size >= MAX_NAMES) return 0;
    id = native.name(text) || 0;
    names.set(text, id);
  }
  return id;
}

function openScope(mark) {
  if (mark.serial === 0) rename(mark);
  words[ARG] = table.place(mark);
  native.open();
}

function rename(mark) {
  const name = mark.named.name;
  if ((name !== mark.name || mark.nameId === 0) && typeof name === 'string') {
    mark.name = name;
    mark.nameId = nameId(name);
  }
}

function commitIfKept(mark) {
  if (words[KEEP] !== 0) native.commit(mark.name, mark.links, ...labelsOf(mark));
}

function closeScope(mark) {
  rename(mark);
  words[NAME] = mark.nameId;
  native.close();
  commitIfKept(mark);
}

/* ---- scopes that linger ---- */

function linger() {
  lingering = current;
  rename(lingering);
  words[NAME] = lingering.nameId;
  words[LINGERS] = 1;
  current = null;
}

function endLingering() {
  const mark = lingering;
  lingering = null;
  open.pop();
  if (words[LINGERS] === 0) return commitIfKept(mark);
  words[LINGERS] = 0;
  closeScope(mark);
}

/* Whether the scope that lingers goes on as the one of a new level. */
function resume(mark) {
  if (words[LINGERS] === 0 || mark !== lingering) return false;
  words[LINGERS] = 0;
  lingering = null;
  return true;
}

/* ---- levels ---- */

function hide() {
  hides.push(visible);
  for (let i = open.length - 1; i >= visible; i--) closeScope(open[i]);
  visible = open.length;
}

function unhide() {
  visible = hides.pop();
  for (let i = visible; i < open.length; i++) openScope(open[i]);
}

/* From current to another mark, inside. */
function turnTo(mark) {
  if (mark !== null) {
    open.push(mark);
    openScope(mark);
  } else {
    hide();
  }
  current = mark;
}

/* And back. */
function turnBack(before) {
  if (current !== null) closeScope(open.pop());
  else unhide();
  current = before;
}

function enter(mark, id) {
  if (n === MAX_LEVELS) restart();
  befores[n] = current;
  ids[n++] = id;
  if (lingering !== null) {
    if (resume(mark)) {
      current = mark;
      return;
    }
    endLingering();
  }
  if (mark !== current) turnTo(mark);
}

/* Ends all levels from number `level` on. */
function leaveTo(level) {
  if (lingering !== null) endLingering();
  while (n > level) {
    const before = befores[--n];
    if (before !== current) turnBack(before);
    befores[n] = null;
    ids[n] = SYNC;
  }
}

/* A callback's end. It need not be the innermost level: an uncaught exception ends callbacks with run() inside. */
function leave(id) {
  let level = n - 1;
  if (level >= 0 && ids[level] !== id) {
    counts.resyncs++;
    while (level >= 0 && ids[level] !== id) level--;
  }
  if (level >= 0) leaveTo(level); // else it began before the hooks were there
}

/* A microtask's end. */
function leaveMicrotask(id) {
  if (n === 1 && ids[0] === id && current !== null && befores[0] === null && words[DRAINS] !== 0) {
    ids[--n] = SYNC;
    linger();
  } else {
    leave(id);
  }
}

/* The mark of the innermost level becomes another. */
function change(mark) {
  if (lingering !== null) endLingering();
  if (mark === current) return;
  const before = n > 0 ? befores[n - 1] : null;
  if (current !== before) turnBack(before);
  if (mark !== before) turnTo(mark);
}

/* Nothing runs any more. */
function restart() {
  counts.resyncs++;
  leaveTo(0);
  change(null);
}

module.exports = {
  SYNC, counts, start, enter, leave, leaveMicrotask, leaveTo, change, restart,
  level: () => n,
  mark: () => current,
};
