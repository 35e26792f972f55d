// Elements and text, and the frames of the stream, which are read on demand.
// All that the stream holds is shown as text: no string becomes markup, a link or a script.

const stream = JSON.parse(document.getElementById("stream").textContent);
const { blocks, holds, chunks, target } = stream;
const isTimed = stream.timed;

// Elements

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Controls, marks of direction, tags, lone surrogates and other characters that have no shape of
// their own, or change how others look.
const UNSEEN =
  /[\0-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202f\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e0fff}]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, "gu");

/** Append text to an element, with what is unseen as escapes and what is searched for marked. */
function show(parent, text, { lines = false } = {}) {
  let start = 0;
  if (UNSEEN.test(text)) {
    for (const { 0: unseen, index } of text.matchAll(EACH_UNSEEN)) {
      if (lines && (unseen === "\n" || unseen === "\t")) continue;
      showPlain(parent, text.slice(start, index));
      parent.append(element("span", { class: "escape" }, escapeOf(unseen)));
      start = index + unseen.length;
    }
  }
  showPlain(parent, text.slice(start));
  return parent;
}

function showPlain(parent, text) {
  let start = 0;
  if (query) {
    for (const { 0: found, index } of text.matchAll(query)) {
      parent.append(text.slice(start, index), element("mark", {}, found));
      start = index + found.length;
    }
  }
  if (start < text.length) parent.append(text.slice(start));
}

const SHORT_ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escapeOf(character) {
  return SHORT_ESCAPES[character] ?? `\\u{${character.codePointAt(0).toString(16)}}`;
}

const LONG_CHARS = 20_000;

/** Return a box of text that shows the first part of a long text, and more on demand. */
function box(text) {
  const pre = element("pre", { tabindex: 0 });
  const rest = (from) => {
    const to = from + LONG_CHARS * (from ? 10 : 1);
    show(pre, text.slice(from, to), { lines: true });
    if (to >= text.length) return;
    const more = element("button", {
      type: "button",
      onclick: () => {
        more.remove();
        rest(to);
      },
    });
    more.append(`${count(text.length - to, "more character")}`);
    pre.append(more);
  };
  rest(0);
  return pre;
}

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const seconds = (ms) => `${(ms / 1000).toLocaleString("en", { minimumFractionDigits: 3 })} s`;

function jump(label, go) {
  return element("button", { type: "button", class: "jump", onclick: go }, label);
}

// Chunks of frames: deflated JSON in base64, read on demand.  A row is a frame with its events,
// [ms, type, data, [[event, block, text, fields] …], [[type, data] of the target …]].

const MAX_READ_CHUNKS = 48;
const packed = document.getElementsByClassName("chunk");
const read = new Map();

function loadChunk(number) {
  let rows = read.get(number);
  read.delete(number);
  rows ??= inflate(packed[number].textContent).then((found) => number_events(number, found));
  read.set(number, rows); // the last one is the one read last
  if (read.size > MAX_READ_CHUNKS) read.delete(read.keys().next().value);
  return rows;
}

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(plain).json();
}

function number_events(number, rows) {
  let event = chunks[number][1];
  for (const row of rows) {
    row.event = event;
    event += row[3].length;
  }
  rows.isLoaded = true;
  loaded.set(number, rows);
  for (const each of loaded.keys()) if (!read.has(each)) loaded.delete(each);
  return rows;
}

const loaded = new Map();

/** Return the last chunk whose first frame, event or time is not behind a value. */
function chunkOf(value, column) {
  let low = 0;
  let high = chunks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (chunks[middle][column] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

async function rowOf(frame) {
  const number = chunkOf(frame, 0);
  return (await loadChunk(number))[frame - chunks[number][0]];
}

async function frameOfEvent(event) {
  const number = chunkOf(event, 1);
  const rows = await loadChunk(number);
  const at = rows.findIndex((row) => event < row.event + row[3].length);
  return chunks[number][0] + (at < 0 ? rows.length - 1 : at);
}

async function frameOfPosition(position) {
  if (!isTimed) return frameOfEvent(Math.floor(position));
  // Chunks before may end at the same time.
  const number = chunkOf(position, 2);
  const rows = await loadChunk(number);
  const at = rows.findIndex((row) => row[0] >= position);
  return Math.min(chunks[number][0] + (at < 0 ? rows.length : at), stream.frames - 1);
}
