"use strict";
/*
 * The flame graph page. The data are columns of nodes in layout order (a parent before its children, siblings by weight).
 * The boxes are drawn on one canvas as large as the window; a subtree narrower than half a pixel is skipped whole, so the
 * work of a frame depends on what can be seen and not on the size of the tree. Names are only ever drawn or set as text.
 */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const n = data.depth.length, ROW = 20, PAD = 1;
const KINDS = ["all", "service", "thread", "scope", "managed", "compiled", "inlined", "native", "kernel", "special"];
const ROOT = 0, SCOPE = 3, MANAGED = 4, INLINED = 6, NATIVE = 7, SPECIAL = 9;

/* ---- the tree ---- */

const parent = new Int32Array(n), end = new Int32Array(n); /* a subtree is [i, end[i]) */
const total = new Float64Array(n), samples = new Float64Array(n), start = new Float64Array(n);
let maxDepth = 0;
(() => {
  const path = [];
  for (let i = 0; i < n; i++) {
    const d = data.depth[i];
    path[d] = i;
    parent[i] = d ? path[d - 1] : -1;
    total[i] = data.self[i];
    samples[i] = data.selfSamples[i];
    end[i] = i + 1;
    maxDepth = Math.max(maxDepth, d);
  }
  for (let i = n - 1; i > 0; i--) {
    total[parent[i]] += total[i];
    samples[parent[i]] += samples[i];
    end[parent[i]] = Math.max(end[parent[i]], end[i]);
  }
  const next = new Float64Array(n); /* where the next child begins */
  for (let i = 0; i < n; i++) {
    if (i) {
      start[i] = next[parent[i]];
      next[parent[i]] += total[i];
    }
    next[i] = start[i];
  }
})();
const all = n ? total[0] : 0, allSamples = n ? samples[0] : 0;
const text = i => data.strings[i] || "";
const nameOf = i => text(data.name[i]) || "(unnamed)";

/* ---- numbers ---- */

function group(v) { return Math.round(v).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ","); }
function digits(v) { return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2); }
function duration(ns) {
  if (ns < 1e3) return ns.toFixed(0) + " ns";
  if (ns < 1e6) return digits(ns / 1e3) + " \u00b5s";
  if (ns < 1e9) return digits(ns / 1e6) + " ms";
  if (ns < 120e9) return digits(ns / 1e9) + " s";
  return digits(ns / 60e9) + " min";
}
function count(k) { return group(k) + (k === 1 ? " sample" : " samples"); }
function weight(v) { return data.counts ? group(v) : duration(v); }
function share(part, whole) { return whole > 0 ? part / whole : 0; }
function percent(p) { return (p * 100).toFixed(1) + "%"; }
/* "[75.7, 87.3]": the 95% interval (Wilson's) of share p in all samples, in percent. */
function interval(p) {
  const z = 1.96, n = allSamples;
  if (!n) return "[0.0, 100.0]";
  const scale = 1 / (1 + z * z / n), centre = (p + z * z / (2 * n)) * scale;
  const half = z * scale * Math.sqrt(Math.max(p * (1 - p), 0) / n + z * z / (4 * n * n));
  const low = p > 0 ? Math.max(centre - half, 0) : 0, high = p < 1 ? Math.min(centre + half, 1) : 1;
  return "[" + (low * 100).toFixed(1) + ", " + (high * 100).toFixed(1) + "]";
}
function withInterval(p) { return percent(p) + " " + interval(p); }
function tooFew(k) { return allSamples < 20 || k < 5; }

/* ---- colours ---- */

const dark = matchMedia("(prefers-color-scheme: dark)");
/* hue, saturation, lightness by day and by night; spread of the hue over modules */
const PALETTE = [[215, 12, 88, 30, 0], [215, 14, 84, 34, 0], [215, 12, 88, 31, 0], [168, 38, 76, 34, 8], [30, 84, 72, 37, 14],
                 [46, 80, 70, 35, 6], [208, 56, 86, 34, 8], [210, 62, 76, 42, 14], [278, 48, 80, 44, 8], [215, 8, 80, 36, 0]];
function hash(s) {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return ((h ^ h >>> 15) >>> 0) / 4294967296;
}
const fills = new Map();
function fillOf(i) {
  const kind = data.kind[i], key = kind * 1e7 + data.module[i] * 8 + data.name[i] % 5;
  let f = fills.get(key);
  if (!f) {
    const [h, s, day, night, spread] = PALETTE[kind];
    const hue = h + (hash(text(data.module[i])) - 0.5) * 2 * spread;
    const light = (dark.matches ? night : day) + (kind > SCOPE && kind < SPECIAL ? (data.name[i] % 5 - 2) * 1.3 : 0);
    f = "hsl(" + hue.toFixed(0) + " " + s + "% " + light.toFixed(1) + "%)";
    fills.set(key, f);
  }
  return f;
}
let ink = {};
function readInk() {
  const css = getComputedStyle(document.documentElement), get = v => css.getPropertyValue(v).trim();
  ink = { bg: get("--bg"), text: dark.matches ? "#f3f5f8" : "#1b2026", hit: get("--hit"), accent: get("--accent"), dim: get("--dim") };
  fills.clear();
}

/* ---- the page ---- */

function element(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) k in e ? e[k] = v : e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function fact(list, name, value, mono) {
  if (value) list.append(element("div", null, element("dt", { textContent: name }),
                                 element("dd", { textContent: value, className: mono ? "mono" : "" })));
}
function header() {
  const facts = element("dl", { className: "facts" });
  fact(facts, "trace", data.traceId, true);
  fact(facts, "traces", data.traceId ? "" : group(data.traces));
  fact(facts, data.service.includes(", ") ? "services" : "service", data.service);
  fact(facts, data.traceId ? "lasted" : "lasted in all", duration(data.durationNs));
  fact(facts, "on CPU", data.counts ? "" : duration(data.onCpuNs));
  const waitNs = data.durationNs - data.onCpuNs - data.uncoveredNs; /* as out_text says it */
  const waited = data.traceId && !data.filter && !data.counts && waitNs > data.durationNs / 5;
  fact(facts, "waited", waited ? "about " + duration(waitNs) + " or more (not shown)" : "");
  fact(facts, "samples", group(data.samples) + (data.event ? " of " + data.event : "") +
       (data.periodNs ? ", one per " + duration(data.periodNs) : ""));
  fact(facts, "began", data.start.replace("T", " ").replace(/(\.\d{3})\d*Z/, "$1 UTC"));
  fact(facts, "filter", data.filter);
  return element("div", { className: "what" }, element("h1", { textContent: data.title || "flame graph" }), facts);
}
const input = element("input", { type: "search", placeholder: "Search names, files (regex)", spellcheck: false,
                                 autocomplete: "off", "aria-label": "Search by regular expression" });
const slash = element("kbd", { textContent: "/" });
const bReset = element("button", { textContent: "Reset zoom", title: "Esc" });
const bFlip = element("button", { textContent: "Flip", title: "i: root at the bottom", "aria-pressed": "false" });
const bTable = element("button", { textContent: "Functions", title: "t: hottest functions", "aria-pressed": "false" });
const crumbs = element("nav", { className: "crumbs", "aria-label": "Where the graph is zoomed to" });
const found = element("div", { className: "found", "aria-live": "polite" });
const legend = element("div", { className: "legend" });
const canvas = element("canvas");
const tall = element("div", { className: "tall" });
const graph = element("div", { className: "graph", tabIndex: 0, role: "application",
                               "aria-label": "Flame graph; arrow keys move, Enter zooms" }, canvas, tall);
const side = element("aside", { hidden: true });
const tip = element("div", { className: "tip", hidden: true });
const spoken = element("div", { className: "sr", "aria-live": "polite" });
const footer = element("footer");
document.body.append(
  element("header", null, header(),
          element("div", { className: "tools" }, element("div", { className: "search" }, input, slash), bReset, bFlip, bTable)),
  element("div", { className: "bar" }, crumbs, found, legend),
  element("main", null, graph, side), footer, tip, spoken);
if (!n || !all) graph.append(element("div", { className: "empty",
  textContent: "No sample fell into this: it was too short on the CPU, or waited." }));

/* ---- state and drawing ---- */

let zoom = 0, hover = -1, selected = -1, flipped = false, matches = null /* Uint8Array by node, or none */;
let width = 0, height = 0, scheduled = false;
const context = canvas.getContext("2d");
const FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
let charWidth = 7.2;

function shownRows() { /* the deepest node below zoom that is wide enough to be drawn */
  const least = total[zoom] / Math.max(width, 1) * 0.5;
  let deepest = data.depth[zoom];
  for (let i = zoom; i < end[zoom];) {
    if (total[i] < least) { i = end[i]; continue; }
    deepest = Math.max(deepest, data.depth[i]);
    i++;
  }
  return deepest + 1;
}
let rows = 1;
function yOf(depth) { return flipped ? Math.max(rows * ROW, height) - (depth + 1) * ROW : depth * ROW; }
function schedule() {
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; draw(); });
  }
}
function resize() {
  const ratio = devicePixelRatio || 1;
  width = graph.clientWidth;
  height = graph.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  charWidth = context.measureText("mmmmmmmmmm").width / 10 || 7.2;
  relayout();
}
function relayout() {
  rows = n ? shownRows() : 1;
  tall.style.height = rows * ROW + 24 + "px";
  schedule();
}
/* Cuts by code points, so that no character is halved. Of "libz.so.1+0x2f30" the offset stays, which tells it apart. */
function shorten(s, most) {
  if (s.length <= most) return s;
  const offset = /\+0x[0-9a-f]+( \?)?$/.exec(s), tail = offset && offset[0].length < most - 3 ? offset[0] : "";
  const room = Math.max(most - tail.length, 0), points = Array.from(s.slice(0, 2 * room + 2));
  return points.length <= room ? points.join("") + tail : points.slice(0, Math.max(room - 1, 0)).join("") + "\u2026" + tail;
}
function fit(s, room) { return shorten(s, Math.floor(room / charWidth)); }
/* What tells a function where its whole name has no room: no package, no namespace, no parameters. */
function briefOf(i) {
  const name = nameOf(i);
  if (data.kind[i] !== NATIVE && data.kind[i] !== INLINED) return name.replace(/^(?:[a-z_]\w*\.)+(?=[A-Z])/, "");
  let s = name.replaceAll("(anonymous namespace)::", ""), before;
  if (!s.includes("::") || s.includes("operator")) return name;
  do s = (before = s).replace(/<[^<>]*>|\([^()]*\)/g, ""); while (s !== before);
  return /[^: ]*$/.exec(s.replace(/ (?:const|\[).*$/, ""))[0] || name;
}
function shortFile(i) {
  const f = text(data.file[i]) || (data.kind[i] === MANAGED ? text(data.module[i]) : "");
  return f && data.line[i] ? f.slice(f.lastIndexOf("/") + 1) + ":" + data.line[i] : "";
}
/* Setting a canvas's state costs more than comparing. */
let lastFill = "", lastAlpha = 1;
function paint(fill, alpha) {
  if (fill !== lastFill) context.fillStyle = lastFill = fill;
  if (alpha !== lastAlpha) context.globalAlpha = lastAlpha = alpha;
}
function drawBox(i, x, y, w, above) {
  const isHit = matches && matches[i], dimmed = above || (matches && !isHit);
  const gap = w > 3 ? PAD : w > 1.2 ? 0.4 : 0;
  paint(isHit ? ink.hit : fillOf(i), dimmed ? 0.38 : 1);
  context.fillRect(x, y, Math.max(w - gap, 0.5), ROW - PAD);
  if (w < 3 && i !== hover && i !== selected) return;
  paint(lastFill, 1);
  if (i === hover || i === selected) {
    context.strokeStyle = i === selected ? ink.accent : ink.text;
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.75, y + 0.75, Math.max(w - gap - 1.5, 0.5), ROW - PAD - 1.5);
  }
  const left = Math.max(x, 0) + 4, room = Math.min(x + w, width) - left - 4;
  if (room < 3 * charWidth) return;
  let name = nameOf(i);
  const few = tooFew(samples[i]) && data.depth[i] ? " ?" : "";
  if ((name.length + few.length) * charWidth > room && data.kind[i] > SCOPE) name = briefOf(i);
  const label = fit(name + few, room);
  paint(isHit ? (dark.matches ? "#1b0a14" : "#ffffff") : ink.text, dimmed ? 0.6 : 1);
  context.fillText(label, left, y + 14);
  const place = shortFile(i), used = (name.length + few.length + 2) * charWidth;
  if (place && used + place.length * charWidth < room) {
    paint(lastFill, dimmed ? 0.35 : 0.55);
    context.fillText(place, left + used, y + 14);
  }
}
const drawnTo = new Float64Array(maxDepth + 1); /* per depth: the pixel up to which boxes were drawn */
function draw() {
  context.globalAlpha = lastAlpha = 1;
  context.fillStyle = lastFill = ink.bg;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  drawnTo.fill(-1);
  if (!n || !all) return;
  const top = graph.scrollTop, scale = width / total[zoom], from = start[zoom];
  for (let i = parent[zoom]; i >= 0; i = parent[i]) { /* what encloses the zoomed box */
    const y = yOf(data.depth[i]) - top;
    if (y > -ROW && y < height) drawBox(i, 0, y, width, true);
  }
  for (let i = zoom; i < end[zoom];) {
    const w = total[i] * scale, y = yOf(data.depth[i]) - top;
    const beyond = flipped ? y < -ROW : y >= height; /* so are all of its subtree */
    if (w < 0.5 || beyond) { i = end[i]; continue; }
    const x = (start[i] - from) * scale;
    if (y > -ROW && y < height && (w >= 2 || x + w > drawnTo[data.depth[i]] + 0.7)) { /* else its pixel is taken */
      drawBox(i, x, y, w, false);
      drawnTo[data.depth[i]] = x + w;
    }
    i++;
  }
}
function nodeAt(px, py) {
  if (!n || !all) return -1;
  const y = py + graph.scrollTop;
  const depth = flipped ? Math.floor((Math.max(rows * ROW, height) - y) / ROW) : Math.floor(y / ROW);
  if (depth < 0) return -1;
  if (depth < data.depth[zoom]) {
    let i = zoom;
    while (data.depth[i] > depth) i = parent[i];
    return i;
  }
  const at = start[zoom] + px / width * total[zoom];
  for (let i = zoom; i < end[zoom];) {
    if (at < start[i] || at >= start[i] + total[i]) { i = end[i]; continue; }
    if (data.depth[i] === depth) return i;
    i++;
  }
  return -1;
}

/* ---- zoom and selection ---- */

function remember() {
  const parts = [];
  if (zoom) parts.push("z=" + zoom);
  if (input.value) parts.push("q=" + encodeURIComponent(input.value));
  try { history.replaceState(null, "", "#" + parts.join("&")); } catch (e) { /* some viewers forbid it; nothing is lost */ }
}
function zoomTo(i) {
  zoom = i;
  bReset.disabled = zoom === 0;
  const y0 = flipped ? graph.scrollHeight : 0;
  relayout();
  graph.scrollTop = flipped ? y0 : Math.max(0, Math.min(graph.scrollTop, yOf(data.depth[i] || 0)));
  showCrumbs();
  showFound();
  remember();
}
function showCrumbs() {
  const path = [];
  for (let i = zoom; i >= 0 && n; i = parent[i]) path.unshift(i);
  const shown = path.length > 7 ? [path[0], -1, ...path.slice(-5)] : path;
  crumbs.replaceChildren();
  shown.forEach((i, at) => {
    if (at) crumbs.append(element("span", { textContent: "\u203a" }));
    if (i < 0) crumbs.append(element("span", { textContent: " \u2026 " }));
    else crumbs.append(element("button", { textContent: i ? nameOf(i) : "all", title: nameOf(i), onclick: () => zoomTo(i) }));
  });
}
function select(i) {
  selected = i;
  if (i < 0) return schedule();
  const y = yOf(data.depth[i]);
  if (y < graph.scrollTop) graph.scrollTop = y;
  else if (y + ROW > graph.scrollTop + height) graph.scrollTop = y + ROW - height;
  spoken.textContent = nameOf(i) + ", " + weight(total[i]) + ", " + withInterval(share(total[i], all));
  const scale = width / total[zoom], box = graph.getBoundingClientRect();
  showTip(i, box.left + Math.max(0, (start[i] - start[zoom]) * scale) + 24, box.top + y - graph.scrollTop + ROW);
  schedule();
}
function sibling(i, step) {
  const p = parent[i];
  if (p < 0) return i;
  let before = i;
  for (let c = p + 1; c < end[p]; c = end[c]) {
    if (step < 0 && c === i) return before;
    if (step > 0 && c === i) return end[c] < end[p] ? end[c] : i;
    before = c;
  }
  return i;
}
function move(key) {
  let i = selected >= 0 ? selected : zoom;
  const down = flipped ? "ArrowUp" : "ArrowDown", up = flipped ? "ArrowDown" : "ArrowUp";
  if (selected >= 0) {
    if (key === down && end[i] > i + 1) i = i + 1; /* the heaviest child comes first */
    if (key === up && parent[i] >= 0) i = parent[i];
    if (key === "ArrowLeft") i = sibling(i, -1);
    if (key === "ArrowRight") i = sibling(i, 1);
  }
  if (i < zoom || i >= end[zoom]) {
    if (data.depth[i] < data.depth[zoom]) zoomTo(i);
    else i = zoom;
  }
  select(i);
}

/* ---- details ---- */

function row(...cells) { return element("tr", null, ...cells.map(c => element("td", { textContent: c }))); }
/* "managed  /srv/shop/cart.py:120", "inlined  sort.c:88  (libc.so.6)"; brief: file names without folders, no kind. */
function placeOf(i, brief) {
  const kind = KINDS[data.kind[i]], line = data.line[i] ? ":" + data.line[i] : "";
  if (data.kind[i] < MANAGED) return kind;
  const last = s => brief ? s.slice(s.lastIndexOf("/") + 1) : s;
  const file = last(text(data.file[i])), base = text(data.module[i]).replace(/.*\//, "");
  const module = base && nameOf(i).startsWith(base + "+") ? "" : last(text(data.module[i])); /* libz.so.1+0x2f30 says it */
  const where = file ? file + line + (module && module !== file ? "  (" + module + ")" : "") : module ? module + line : "";
  return brief ? where || kind : where === kind ? kind : kind + "  " + where;
}
function numbers(what, v, k, whole) {
  return row(what, weight(v), withInterval(share(v, whole)), count(k));
}
function showTip(i, x, y) {
  const table = element("table", null, numbers("total", total[i], samples[i], all));
  if (data.selfSamples[i]) table.append(numbers("self", data.self[i], data.selfSamples[i], all));
  if (parent[i] > 0) table.append(row("of caller", percent(share(total[i], total[parent[i]])), "", ""));
  if (zoom > 0 && i > zoom && i < end[zoom]) table.append(row("of zoom", percent(share(total[i], total[zoom])), "", ""));
  tip.replaceChildren(element("div", { className: "name mono", textContent: nameOf(i) }),
                      element("div", { className: "place", textContent: placeOf(i) }), table);
  if (tooFew(samples[i])) tip.append(element("div", { className: "warn", textContent: "too few samples to trust the share" }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + "px";
}
function hideTip() {
  tip.hidden = true;
  if (hover >= 0) { hover = -1; schedule(); }
}

/* ---- search ---- */

function pattern(s) {
  const flags = /[A-Z]/.test(s) ? "u" : "iu"; /* capital letters make it exact */
  try { return new RegExp(s, flags); } catch (e) { return null; }
}
function search() {
  const q = input.value;
  slash.hidden = q !== "" || document.activeElement === input;
  const re = q ? pattern(q) : null;
  input.classList.toggle("bad", q !== "" && !re);
  matches = null;
  if (re) {
    const strings = data.strings.map(s => re.test(s));
    matches = new Uint8Array(n);
    for (let i = 1; i < n; i++) {
      const frame = data.kind[i] >= MANAGED;
      matches[i] = strings[data.name[i]] || (frame && (strings[data.module[i]] || strings[data.file[i]])) ? 1 : 0;
    }
  }
  showFound();
  remember();
  schedule();
}
/* The share of what is below the zoomed box that lies in or below a match; a match within a match counts once. */
function showFound() {
  found.classList.toggle("bad", input.classList.contains("bad"));
  if (input.classList.contains("bad")) return void (found.textContent = "not a valid pattern");
  if (!matches) return void (found.textContent = "");
  let v = 0, k = 0;
  const names = new Set();
  for (let i = zoom; i < end[zoom]; i++) if (matches[i]) names.add(data.name[i]);
  for (let i = zoom; i < end[zoom];) {
    if (matches[i]) { v += total[i]; k += samples[i]; i = end[i]; } else i++;
  }
  found.textContent = names.size === 0 ? "no match" : group(names.size) + (names.size === 1 ? " name, " : " names, ") +
    weight(v) + ", " + withInterval(share(v, all)) + (zoom ? " (" + percent(share(v, total[zoom])) + " of zoom)" : "") +
    ", " + count(k) + (tooFew(k) ? " ?" : "");
}

/* ---- the hottest functions; recursion counts once ---- */

function functions() {
  const by = new Map(), open = new Map(), path = [];
  for (let i = 0; i < n; i++) {
    while (path.length && path[path.length - 1].end <= i) open.set(path.pop().f, false);
    if (data.kind[i] < MANAGED) continue;
    const key = data.name[i] + " " + data.module[i] + " " + data.kind[i];
    let f = by.get(key);
    if (!f) by.set(key, f = { node: i, self: 0, selfSamples: 0, total: 0, samples: 0 });
    f.self += data.self[i];
    f.selfSamples += data.selfSamples[i];
    if (!open.get(f)) {
      f.total += total[i];
      f.samples += samples[i];
      open.set(f, true);
      path.push({ f, end: end[i] });
    }
  }
  return [...by.values()].filter(f => f.selfSamples).sort((a, b) => b.self - a.self || b.total - a.total).slice(0, 200);
}
function exactly(s) { return "^" + s.replace(/[\\^$.*+?()[\]{}|\/]/g, "\\$&") + "$"; }
function fillTable() {
  const body = element("tbody");
  for (const f of functions()) {
    const find = () => { input.value = exactly(nameOf(f.node)); search(); };
    body.append(element("tr", { tabIndex: 0, onclick: find, onkeydown: e => { if (e.key === "Enter") find(); },
                                className: tooFew(f.selfSamples) ? "few" : "" },
      element("td", null, percent(share(f.self, all)), element("small", { textContent:
        interval(share(f.self, all)) + (tooFew(f.selfSamples) ? " ?" : "") })),
      element("td", null, percent(share(f.total, all)), element("small", { textContent: count(f.samples) })),
      element("td", null, element("b", { className: "mono", textContent: shorten(nameOf(f.node), 44), title: nameOf(f.node) }),
              element("small", { textContent: placeOf(f.node, true), title: placeOf(f.node) }))));
  }
  side.replaceChildren(element("table", null, element("thead", null, element("tr", null,
    element("th", { textContent: "self, 95%" }), element("th", { textContent: "total" }),
    element("th", { textContent: "function" }))), body));
}
function toggleTable() {
  side.hidden = !side.hidden;
  bTable.setAttribute("aria-pressed", String(!side.hidden));
  if (!side.hidden && !side.firstChild) fillTable();
  resize();
}
function flip() {
  flipped = !flipped;
  bFlip.setAttribute("aria-pressed", String(flipped));
  relayout();
  graph.scrollTop = flipped ? graph.scrollHeight : 0;
}

/* ---- events ---- */

graph.addEventListener("mousemove", e => {
  const box = graph.getBoundingClientRect(), i = nodeAt(e.clientX - box.left, e.clientY - box.top);
  if (i !== hover) { hover = i; schedule(); }
  canvas.style.cursor = i >= 0 ? "pointer" : "default";
  if (i >= 0) showTip(i, e.clientX, e.clientY); else tip.hidden = true;
});
graph.addEventListener("mouseleave", hideTip);
graph.addEventListener("click", e => {
  const box = graph.getBoundingClientRect(), i = nodeAt(e.clientX - box.left, e.clientY - box.top);
  if (i >= 0) { selected = -1; tip.hidden = true; zoomTo(i); }
});
graph.addEventListener("scroll", () => { tip.hidden = true; schedule(); }, { passive: true });
input.addEventListener("input", search);
input.addEventListener("focus", () => { slash.hidden = true; });
input.addEventListener("blur", () => { slash.hidden = input.value !== ""; });
bReset.addEventListener("click", () => zoomTo(0));
bFlip.addEventListener("click", flip);
bTable.addEventListener("click", toggleTable);
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = document.activeElement === input;
  if (e.key === "Escape") {
    if (input.value) { input.value = ""; search(); } else if (typing) input.blur(); else zoomTo(0);
    select(-1);
    tip.hidden = true;
  } else if (typing) {
    if (e.key === "Enter") graph.focus();
  } else if (e.key === "/") {
    e.preventDefault();
    input.focus();
    input.select();
  } else if (e.key === "i") flip();
  else if (e.key === "t") toggleTable();
  else if (e.key.startsWith("Arrow") && n) { e.preventDefault(); move(e.key); }
  else if (e.key === "Enter" && selected >= 0 && document.activeElement === graph) zoomTo(selected);
  else if (e.key === "Backspace" && zoom > 0) zoomTo(parent[zoom]);
});
new ResizeObserver(resize).observe(graph);
dark.addEventListener("change", () => { readInk(); showLegend(); schedule(); });

/* ---- foot and start ---- */

function showLegend() {
  legend.replaceChildren();
  const kinds = new Set(data.kind);
  for (let k = SCOPE; k < KINDS.length; k++) {
    if (!kinds.has(k)) continue;
    const [h, s, day, night] = PALETTE[k], dot = element("i");
    dot.style.background = "hsl(" + h + " " + s + "% " + (dark.matches ? night : day) + "%)";
    legend.append(element("span", null, dot, KINDS[k]));
  }
}
function note(count, words) {
  if (count) footer.append(element("span", { className: "note", textContent: group(count) + " " + words }));
}
if (allSamples < 20 && n) footer.append(element("span", { className: "note",
  textContent: "Too few samples (" + allSamples + ") to trust shares: ask for more traces or raise --hz." }));
note(data.noStack, "of the samples have no managed stack; the frame says why");
note(data.shared, "of the samples are of work shared with other traces");
note(data.ambiguous, "samples fit two contexts and are given to none");
note(data.lost, "samples were lost by the kernel");
note(data.cutShort, "scopes were cut short: their process ended");
if (data.uncoveredNs) footer.append(element("span", { className: "note",
  textContent: duration(data.uncoveredNs) + " of CPU time was not covered: before sampling of its thread began" }));
footer.append(element("span", { textContent: "[low, high] is the 95% interval; ? marks fewer than 5 samples." }));
const keys = element("span", { className: "keys" });
for (const [k, what] of [["/", "search"], ["Esc", "clear, reset"], ["\u2190\u2191\u2192\u2193", "move"], ["Enter", "zoom"],
                         ["i", "flip"], ["t", "functions"]])
  keys.append(element("kbd", { textContent: k }), " " + what + "  ");
footer.append(keys);

readInk();
showLegend();
bReset.disabled = true;
const hashParts = new URLSearchParams(location.hash.slice(1)), z = Number(hashParts.get("z"));
if (Number.isInteger(z) && z > 0 && z < n) zoom = z;
input.value = hashParts.get("q") || "";
slash.hidden = input.value !== "";
resize();
zoomTo(zoom);
if (input.value) search();
if (innerWidth > 1300 && n > 20) toggleTable();
})();
