// The facts of the stream, and its blocks over its course.

function showFacts() {
  const list = $("facts");
  for (const [label, lines, isBad] of stream.facts) {
    const width = lines.length > 1 || lines[0].length > 60 ? "wide" : "";
    const cell = element("dd", { class: isBad ? `${width} bad` : width });
    for (const line of lines) cell.append(show(element("div"), line.slice(0, PREVIEW_CHARS * 10)));
    list.append(element("dt", { class: width }, label), cell);
  }
  const places = [
    ...stream.gaps.map(([ms, frame]) => [`gap of ${seconds(ms)}`, frame]),
    ...stream.violations.slice(0, 20).map(([frame, message]) => [message, frame]),
  ].filter(([, frame]) => frame < stream.frames);
  if (!places.length) return;
  const cell = element("dd", { class: "wide" });
  for (const [label, frame] of places) {
    const button = jump("", () => select(frame, { detail: true, focus: true }));
    show(button, `frame ${frame.toLocaleString("en")}: ${label}`);
    cell.append(element("div", {}, button));
  }
  list.append(element("dt", { class: "wide" }, "go to"), cell);
}

const FIRST_BLOCKS = 100;
const BAR = 1000;
const share = (position) => Math.max(0, Math.min(position / stream.length, 1));

function toneOf(kind) {
  if (kind === "text" || kind === "reasoning") return kind;
  return kind.includes("tool") ? "tool" : "other";
}

function showBlocks() {
  $("count").textContent = blocks.length.toLocaleString("en");
  if (!blocks.length) return;
  const lower = blocks.map(() => []);
  for (const hold of holds) lower[hold.block]?.push(hold);
  const area = $("blocks");
  area.append(legend(), axis());
  const add = (from, to) => {
    for (const [at, block] of blocks.slice(from, to).entries()) {
      area.append(blockRow(from + at, block, lower[from + at]));
    }
    if (to >= blocks.length) return;
    const more = element("button", {
      type: "button",
      onclick: () => {
        more.remove();
        add(to, to + 10 * FIRST_BLOCKS);
      },
    });
    more.append(count(blocks.length - to, "more block"));
    area.append(more);
  };
  add(0, FIRST_BLOCKS);
}

function legend() {
  const sample = (shape) =>
    drawing("svg", { viewBox: "0 0 24 12", "aria-hidden": "true", class: "tool" }, shape);
  const rect = (name) => drawing("rect", { class: name, x: 0, y: 1, width: 24, height: 10 });
  const idle = isTimed ? "open, no event" : "open, events of others";
  const items = [
    [rect("busy"), "events of the block"],
    [rect("open"), idle],
  ];
  if (holds.length) items.push([rect("waits"), `waits to be written to ${target}`]);
  return element(
    "div",
    { class: "legend" },
    ...items.map(([shape, label]) => element("span", {}, sample(shape), label)),
  );
}

function axis() {
  const ticks = element("div", { class: "ticks" });
  const wanted = stream.length / 6;
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= wanted) ?? power;
  for (let at = 0; at < stream.length * 0.97; at += step) {
    const label = isTimed ? `${at / 1000} s` : at.toLocaleString("en");
    const tick = element("span", {}, label);
    tick.style.setProperty("--at", share(at));
    ticks.append(tick);
  }
  const heads = ["#", "kind", "name", "chars"].map((head, at) =>
    element("span", { class: at === 0 || at === 3 ? "number" : "" }, head),
  );
  const label = isTimed ? "time" : "events";
  return element("div", { class: "axis", "aria-label": label }, ...heads, ticks);
}

function blockRow(index, block, waits) {
  const row = element(
    "summary",
    {},
    element("span", { class: "number" }, String(index)),
    element("span", { class: "kind" }, block.kind),
    show(element("span", { class: "name", title: block.name }), block.name || block.head.slice(0, 200)),
    element("span", { class: "number" }, block.chars.toLocaleString("en")),
    bar(block, waits),
  );
  const inside = element("div", { class: "inside" });
  const details = element("details", { class: `block ${toneOf(block.kind)}` }, row, inside);
  details.addEventListener("toggle", () => {
    if (details.open) fillBlock(inside, index, block, waits);
  });
  return details;
}

function bar(block, waits) {
  const [start, stop] = isTimed ? [block.start_ms, block.stop_ms] : [block.start, block.stop];
  const end = stop ?? stream.length - 1;
  const height = waits.length ? 8 : 14;
  const rect = (name, from, to, y, tall) =>
    drawing("rect", {
      class: name,
      x: share(from) * BAR,
      y,
      width: Math.max(share(to) * BAR - share(from) * BAR, 2),
      height: tall,
    });
  const svg = drawing("svg", {
    viewBox: `0 0 ${BAR} 18`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": describeBar(block, start, stop),
  });
  svg.append(rect("open", start, end + 1, 2, height));
  for (const [from, to] of runs(block.busy)) {
    const [low, high] = [from * stream.cell_width, to * stream.cell_width];
    svg.append(rect("busy", Math.max(low, start), Math.min(high, end + 1), 2, height));
  }
  for (const hold of waits) {
    const [from, to] = isTimed ? [hold.start_ms, hold.stop_ms] : [hold.start, hold.stop];
    svg.append(rect("waits", from, to ?? stream.length, 12, 5));
  }
  const holder = element("span", { class: "bar", title: "Go to this position" }, svg);
  holder.addEventListener("click", async (click) => {
    click.preventDefault();
    if (!stream.frames) return;
    const { left, width } = holder.getBoundingClientRect();
    const position = ((click.clientX - left) / width) * stream.length;
    select(await frameOfPosition(position), { detail: true, focus: true });
  });
  return holder;
}

function describeBar(block, start, stop) {
  const at = (position) => (isTimed ? seconds(position) : `event ${position}`);
  return `from ${at(start)} to ${stop === null ? "the end, never closed" : at(stop)}`;
}

/** Return the runs of set bits of a number in hexadecimal, the lowest bit first. */
function runs(hexadecimal) {
  const found = [];
  let start = -1;
  const bits = hexadecimal.length * 4;
  for (let bit = 0; bit <= bits; bit += 1) {
    const digit = bit < bits ? parseInt(hexadecimal.at(-1 - (bit >> 2)), 16) : 0;
    const isSet = (digit >> (bit & 3)) & 1;
    if (isSet && start < 0) start = bit;
    if (!isSet && start >= 0) {
      found.push([start, bit]);
      start = -1;
    }
  }
  return found;
}

async function fillBlock(inside, index, block, waits) {
  const pieces = await piecesOf(index, block);
  inside.replaceChildren();
  if (block.facts) inside.append(show(element("p"), block.facts));
  const first = jump("first frame", async () =>
    select(await frameOfEvent(block.start), { detail: true, focus: true }),
  );
  // The facts of a call name its deltas.
  const isCall = block.kind.includes("call");
  const deltas = isCall ? "" : ` in ${count(pieces.length, "delta")}`;
  inside.append(element("p", {}, `${count(block.bytes, "byte")}${deltas}, `, first));
  for (const hold of waits) inside.append(holdLine(hold));
  const whole = pieces.map(([text]) => text).join("") || block.head;
  if (pieces.length > 1) inside.append(growth(pieces));
  if (!whole) return;
  const formatted = isCall && !block.problem ? format(whole) : "";
  inside.append(element("h3", {}, isCall ? "Arguments as they grew" : "Content"), piecesBox(pieces, whole));
  if (formatted.includes("\n")) {
    inside.append(element("h3", {}, "Arguments, formatted"), box(formatted));
  }
}

function holdLine(hold) {
  const size = `${count(hold.deltas, "delta")}, ${count(hold.chars, "character")},`;
  let long = hold.stop === null ? " to the end" : "";
  if (hold.stop !== null && isTimed) long = ` ${seconds(hold.stop_ms - hold.start_ms)}`;
  else if (hold.stop !== null) long = ` ${count(hold.stop - hold.start, "event")}`;
  const reason = hold.behind === hold.block ? "until it is complete" : `behind block ${hold.behind}`;
  const go = jump("go there", async () =>
    select(await frameOfEvent(hold.start), { detail: true, focus: true }),
  );
  return element("p", {}, `For ${target}, ${size} waited${long} ${reason}: `, go);
}

async function piecesOf(index, block) {
  const pieces = [];
  const last = block.stop === null ? chunks.length - 1 : chunkOf(block.stop, 1);
  for (let number = chunkOf(block.start, 1); number <= last; number += 1) {
    for (const row of await loadChunk(number)) {
      for (const [at, [, of, text]] of row[3].entries()) {
        if (of === index && text) pieces.push([text, isTimed ? row[0] : row.event + at]);
      }
    }
  }
  return pieces;
}

const MAX_PIECES = 2000;

/** Return a box of text in which every second delta is shaded. */
function piecesBox(pieces, whole) {
  const size = pieces.slice(0, MAX_PIECES).reduce((sum, [text]) => sum + text.length, 0);
  if (pieces.length < 2 || size > LONG_CHARS * 10) return box(whole);
  const pre = element("pre", { tabindex: 0 });
  for (const [at, [text, position]] of pieces.slice(0, MAX_PIECES).entries()) {
    const title = isTimed ? seconds(position) : `event ${position.toLocaleString("en")}`;
    pre.append(
      show(element("span", { class: at % 2 ? "piece" : "", title }), text, { lines: true }),
    );
  }
  if (pieces.length <= MAX_PIECES) return pre;
  const more = element("button", {
    type: "button",
    onclick: () => pre.replaceWith(box(whole)),
  });
  more.append(count(pieces.length - MAX_PIECES, "more delta"));
  pre.append(more);
  return pre;
}

/** Return a step chart of the characters over the stream. */
function growth(pieces) {
  const total = pieces.reduce((sum, [text]) => sum + text.length, 0);
  const every = Math.ceil(pieces.length / 500);
  const begin = share(pieces[0][1]) * BAR;
  let path = `M${begin} 50`;
  let chars = 0;
  for (const [at, [text, position]] of pieces.entries()) {
    chars += text.length;
    if (at % every && at !== pieces.length - 1) continue;
    path += `H${share(position) * BAR}V${50 - (chars / total) * 48}`;
  }
  const label = `growth to ${count(total, "character")}`;
  return drawing(
    "svg",
    { class: "growth", viewBox: `0 0 ${BAR} 50`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    drawing("path", { d: `${path}H${BAR}V50Z` }),
  );
}

/** Return JSON with a line for each value; no value is read, since numbers would lose digits. */
function format(json) {
  if (json.length > LONG_CHARS * 5) return "";
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/gs) ?? [];
  let depth = 0;
  let out = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (const [at, token] of tokens.entries()) {
    if (token === "}" || token === "]") {
      depth -= 1;
      if (!"{[".includes(tokens[at - 1])) out += line();
      out += token;
    } else if (token === "{" || token === "[") {
      depth += 1;
      out += token;
      if (!"}]".includes(tokens[at + 1])) out += line();
    } else if (token === ",") out += `,${line()}`;
    else if (token === ":") out += ": ";
    else out += token;
  }
  return out;
}
