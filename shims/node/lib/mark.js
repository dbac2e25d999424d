/*
 * mark: what a scope needs to know of a span or of an own scope: ids, flags, and where its name and labels will be when it
 * closes. A span has one mark, kept on it by a symbol; with baggage that becomes labels, one more for each context that
 * has other baggage.
 *
 * Sources: @opentelemetry/api (createContextKey is Symbol.for), sdk-trace-base Span: parentSpanId in 1.x,
 * parentSpanContext in 2.x, name in both.
 */
'use strict';

const ALWAYS = 1, ROOT = 2, REMOTE_PARENT = 4, UNSAMPLED = 64, SHARED = 256; // enum dvt_scope_flags
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN'), BAGGAGE = Symbol.for('OpenTelemetry Baggage Key');
const MARK = Symbol('dovetail');
const MAX_LABELS = 16;
const TRACE_ID = /^(?!0{32})[0-9a-f]{32}$/i, SPAN_ID = /^(?!0{16})[0-9a-f]{16}$/i;

class Mark {
  constructor(traceId, spanId, parentId, flags) {
    this.traceId = traceId;
    this.spanId = spanId;
    this.parentId = parentId;
    this.flags = flags;
    this.serial = 0; // table.js
    this.place = 0;
    this.name = '';
    this.nameId = 0;
    this.named = this; // whose name it has: frameworks rename a span after routing
    this.span = undefined; // OpenTelemetry's; of an own scope: the one around it
    this.baggage = undefined;
    this.own = false;
    this.labels = undefined; // [key, value, ...]
    this.links = undefined;
  }
}

/* Keys of baggage that become labels. */
const allowed = (process.env.DOVETAIL_BAGGAGE || '').split(',').map(key => key.trim()).filter(key => key)
  .slice(0, MAX_LABELS);

function parentOf(span) {
  if (span.parentSpanContext !== undefined) return span.parentSpanContext;
  return typeof span.parentSpanId === 'string' ? {spanId: span.parentSpanId, isRemote: undefined} : undefined;
}

/* Null for a span without valid ids. */
function readSpan(span) {
  const sc = span.spanContext();
  if (!TRACE_ID.test(sc.traceId) || !SPAN_ID.test(sc.spanId)) return null;
  let flags = sc.traceFlags & 1 ? 0 : UNSAMPLED;
  let mark;
  if (sc.isRemote === true) { // a parent that came in, not a span of this process
    mark = new Mark(sc.traceId, '', sc.spanId, flags | REMOTE_PARENT);
  } else {
    const parent = parentOf(span);
    const has = parent !== undefined && SPAN_ID.test(parent.spanId);
    if (has && parent.isRemote === true) flags |= REMOTE_PARENT;
    if (!has && 'resource' in span) flags |= ROOT; // an SDK's span knows its parent; others are neither root nor child
    mark = new Mark(sc.traceId, sc.spanId, has ? parent.spanId : '', flags);
  }
  mark.span = span;
  if (mark.spanId !== '' && typeof span.name === 'string') mark.named = span;
  return mark;
}

function forSpan(span) {
  let mark = span[MARK];
  if (mark === undefined) span[MARK] = mark = readSpan(span);
  return mark;
}

/* The same span with other baggage. */
function withBaggage(mark, baggage) {
  const copy = new Mark(mark.traceId, mark.spanId, mark.parentId, mark.flags);
  copy.span = mark.span;
  copy.named = mark.named === mark ? copy : mark.named;
  copy.baggage = baggage;
  return copy;
}

function make(context) {
  let mark = null;
  try {
    const span = context.getValue(SPAN);
    if (span) mark = forSpan(span);
    if (mark !== null && allowed.length > 0) {
      const baggage = context.getValue(BAGGAGE);
      if (mark.baggage === undefined) mark.baggage = baggage;
      else if (baggage !== mark.baggage) mark = withBaggage(mark, baggage);
    }
    context[MARK] = mark;
  } catch {
    // a context or span that is not OpenTelemetry's: none
  }
  return mark;
}

/* The mark of an OpenTelemetry context; null without a span. */
function ofContext(context) {
  if (context === undefined || context === null) return null;
  const mark = context[MARK];
  return mark !== undefined ? mark : make(context);
}

/* ---- late parts ---- */

function add(list, key, value) {
  for (let i = 0; i < list.length; i += 2) if (list[i] === key) return;
  if (list.length < 2 * MAX_LABELS) list.push(key, value);
}

function addBaggage(list, mark) {
  for (const key of allowed) {
    const entry = mark.baggage.getEntry(key);
    if (entry && typeof entry.value === 'string') add(list, key, entry.value);
  }
}

/* [key, value, ...]: set by label(), then baggage. Labels of a span are on its first mark. */
function labelsOf(mark) {
  const list = [], set = mark.own ? mark.labels : mark.span[MARK].labels;
  if (set !== undefined) for (let i = 0; i < set.length; i += 2) add(list, set[i], set[i + 1]);
  if (mark.baggage !== undefined && allowed.length > 0) {
    try {
      addBaggage(list, mark);
    } catch {
      // not OpenTelemetry's baggage: no labels of it
    }
  }
  return list;
}

/* Copies: what a scope already reported must not change. Later labels win. */
function setLabels(mark, labels) {
  const owner = mark.own ? mark : mark.span[MARK];
  const all = new Map();
  for (let i = 0; owner.labels !== undefined && i < owner.labels.length; i += 2) all.set(owner.labels[i], owner.labels[i + 1]);
  for (const key of Object.keys(labels)) if (all.size < MAX_LABELS || all.has(key)) all.set(key, String(labels[key]));
  owner.labels = [...all].flat();
}

module.exports = {Mark, ofContext, labelsOf, setLabels, ALWAYS, ROOT, REMOTE_PARENT, UNSAMPLED, SHARED};
