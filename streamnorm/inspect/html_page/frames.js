// The list of frames, of which only the visible rows exist, and the details of one.

// Browsers limit the height of an element: the scroll bar of a longer list moves in larger steps.
const MAX_HEIGHT = 8_000_000;
const PREVIEW_CHARS = 300;
const SHOWN_EVENTS = 4;
const isNarrow = matchMedia("(max-width: 48rem)");
const list = $("list");
const spacer = element("div");
const rowsShown = element("div");
const wrong = new Set(stream.violations.map(([frame]) => frame));
const holdsOf = new Map();
const releasedBy = new Map();
let selected = -1;
let redraw = 0;

for (const hold of holds) {
  holdsOf.set(hold.block, [...(holdsOf.get(hold.block) ?? []), hold]);
  if (hold.stop !== null) releasedBy.set(hold.stop, [...(releasedBy.get(hold.stop) ?? []), hold]);
}

const rowHeight = () => (isNarrow.matches ? 48 : 26);

function geometry() {
  const view = list.clientHeight;
  const whole = stream.frames * rowHeight();
  const tall = Math.min(whole, MAX_HEIGHT);
  return { view, whole, tall, scale: tall > view ? (whole - view) / (tall - view) : 1 };
}

function drawLater() {
  if (!redraw) redraw = requestAnimationFrame(draw);
}

function draw() {
  redraw = 0;
  const { view, tall, scale } = geometry();
  spacer.style.height = `${tall}px`;
  const top = list.scrollTop * scale;
  const first = Math.max(0, Math.floor(top / rowHeight()) - 4);
  const last = Math.min(stream.frames, Math.ceil((top + view) / rowHeight()) + 4);
  const made = [];
  for (let frame = first; frame < last; frame += 1) {
    const row = frameRow(frame);
    row.style.top = `${list.scrollTop + frame * rowHeight() - top}px`;
    made.push(row);
  }
  rowsShown.replaceChildren(...made);
}

function frameRow(frame) {
  const line = element("div", {
    class: "row",
    role: "option",
    id: `frame-${frame}`,
    "aria-selected": String(frame === selected),
    "aria-setsize": stream.frames,
    "aria-posinset": frame + 1,
  });
  line.dataset.frame = frame;
  if (wrong.has(frame)) line.classList.add("wrong");
  if (matches.flags?.[frame]) line.classList.add("found");
  const number = element("span", { class: "number" }, frame.toLocaleString("en"));
  line.append(number);
  const chunk = chunkOf(frame, 0);
  const row = loaded.get(chunk)?.[frame - chunks[chunk][0]];
  if (!row) {
    loadChunk(chunk).then(drawLater);
    line.append(element("span", {}, "…"));
    return line;
  }
  const time = isTimed ? seconds(row[0]) : "";
  line.append(element("span", { class: "time number" }, time), eventsCell(row));
  line.append(target ? writtenCell(row) : dataCell(row[1], row[2]));
  return line;
}

function eventsCell(row) {
  const cell = element("span");
  for (const [name, index, text, fields] of row[3].slice(0, SHOWN_EVENTS)) {
    const tone = index === null ? "" : toneOf(blocks[index]?.kind ?? "");
    const label = index === null ? name : `${name} ${index}`;
    cell.append(element("b", { class: tone }, label), " ");
    const shown = text ?? fields ?? "";
    if (shown) show(cell, `${text === null ? shown.slice(0, PREVIEW_CHARS) : quote(shown)} `);
  }
  if (row[3].length > SHOWN_EVENTS) cell.append(`+ ${row[3].length - SHOWN_EVENTS}`);
  return cell;
}

const quote = (text) => `"${text.slice(0, PREVIEW_CHARS)}"`;

function dataCell(type, data) {
  const cell = element("span");
  if (type !== "message") cell.append(show(element("b"), type), " ");
  // Some vendors repeat the type of a frame in its data.
  const repeated = `{"type":"${type}",`;
  const start = data.startsWith(repeated) ? repeated.length : 0;
  return show(cell, (start ? "…" : "") + data.slice(start, start + PREVIEW_CHARS));
}

function writtenCell(row) {
  const cell = element("span");
  for (const state of waitsOf(row)) cell.append(element("i", {}, `${state} `));
  const [first] = row[4];
  if (!first) return cell;
  if (row[4].length > 1) cell.append(element("b", {}, `${row[4].length} frames`), " ");
  cell.append(...dataCell(...first).childNodes);
  return cell;
}

/** Return what waits, and what no longer waits, at the events of a row. */
function waitsOf(row) {
  const states = [];
  for (const [at, [, index]] of row[3].entries()) {
    const event = row.event + at;
    for (const hold of releasedBy.get(event) ?? []) {
      const long = isTimed ? ` after ${seconds(hold.stop_ms - hold.start_ms)}` : "";
      states.push(`block ${hold.block} is released${long}`);
    }
    const hold = holdsOf.get(index)?.find(
      (each) => each.start <= event && event < (each.stop ?? Infinity),
    );
    if (hold && hold.behind !== hold.block) states.push(`waits for block ${hold.behind}`);
    else if (hold) states.push("waits for its own end");
  }
  return [...new Set(states)];
}

function scrollTo(frame) {
  const { view, scale } = geometry();
  const top = list.scrollTop * scale;
  const low = frame * rowHeight();
  if (low < top) list.scrollTop = low / scale;
  else if (low + rowHeight() > top + view) {
    list.scrollTop = (low + rowHeight() - view) / scale;
  }
}

/** Select a frame: show it in the list and on the timeline. */
async function select(frame, { detail = false, focus = false } = {}) {
  if (!stream.frames) return;
  selected = Math.max(0, Math.min(frame, stream.frames - 1));
  const wanted = selected;
  $("section-frames").open = true;
  if (detail) $("frames").classList.add("opened");
  if (focus) list.focus({ preventScroll: true });
  if (focus) list.scrollIntoView({ block: "nearest" });
  scrollTo(selected);
  draw();
  list.setAttribute("aria-activedescendant", `frame-${selected}`);
  const row = await rowOf(selected);
  if (selected !== wanted) return;
  const area = $("blocks");
  area.style.setProperty("--cursor", share(isTimed ? row[0] : row.event));
  area.style.setProperty("--cursor-shown", "visible");
  if ($("frames").classList.contains("opened")) fillDetail(row);
}

function fillDetail(row) {
  const pane = $("detail");
  const close = element("button", { type: "button", onclick: closeDetail }, "Close");
  const title = [`Frame ${selected.toLocaleString("en")}`];
  if (isTimed) title.push(seconds(row[0]));
  title.push(count(row[2].length, "character"));
  const top = element("div", { class: "top" }, element("h2", {}, title.join(" · ")), close);
  pane.replaceChildren(top);
  for (const [frame, message] of stream.violations) {
    if (frame === selected) pane.append(show(element("p", { class: "bad" }), message));
  }
  pane.append(element("h3", {}, "Raw frame"), rawBox(row[1], row[2]));
  pane.append(element("h3", {}, row[3].length ? "Events" : "No event"));
  for (const [name, index, text, fields] of row[3]) {
    const label = index === null ? name : `${name} ${index}`;
    const shown = [label];
    if (text !== null) shown.push(text);
    if (fields) shown.push(format(fields) || fields);
    pane.append(box(shown.join("\n")));
  }
  if (target) {
    const waits = waitsOf(row);
    pane.append(element("h3", {}, row[4].length ? `Written to ${target}` : `Nothing written to ${target}`));
    if (waits.length) pane.append(element("p", {}, waits.join("; ")));
    for (const [type, data] of row[4]) pane.append(rawBox(type, data));
  }
  pane.hidden = false;
  pane.scrollTop = 0;
  draw();
}

const rawBox = (type, data) => box(type === "message" ? data : `event: ${type}\n${data}`);

function closeDetail() {
  $("frames").classList.remove("opened");
  $("detail").hidden = true;
  list.focus({ preventScroll: true });
  draw();
}

function showFrames() {
  $("frame-count").textContent = stream.frames.toLocaleString("en");
  if (!isTimed) $("frames").classList.add("untimed");
  $("last-head").textContent = target ? `written to ${target}` : "frame";
  list.append(spacer, rowsShown);
  list.style.height = `min(${stream.frames * 48 + 2}px, 36rem, 70vh)`;
  list.addEventListener("scroll", drawLater, { passive: true });
  list.addEventListener("click", (click) => {
    const row = click.target.closest(".row");
    if (row) select(Number(row.dataset.frame), { detail: true });
  });
  isNarrow.addEventListener("change", drawLater);
  new ResizeObserver(drawLater).observe(list);
  draw();
}
