// Search, keys and the start of the page.

const field = $("search");
const matches = { frames: [], flags: null };
let query = null;
let searches = 0;

async function search(text) {
  const number = (searches += 1);
  query = text ? new RegExp(RegExp.escape?.(text) ?? escapePattern(text), "giu") : null;
  matches.frames = [];
  matches.flags = text ? new Uint8Array(stream.frames) : null;
  $("found").textContent = "";
  drawLater();
  if (!text) return;
  // Text that several deltas make up is found in the frame that completes it.
  const ends = new Map();
  for (let chunk = 0; chunk < chunks.length; chunk += 1) {
    const rows = await loadChunk(chunk);
    if (number !== searches) return;
    for (const [at, row] of rows.entries()) {
      if (!holds_match(row, ends, text.length)) continue;
      matches.flags[chunks[chunk][0] + at] = 1;
      matches.frames.push(chunks[chunk][0] + at);
    }
    if (chunk % 8 === 7) {
      reportMatches(`${Math.floor((100 * chunk) / chunks.length)} %`);
      await new Promise((resolve) => setTimeout(resolve));
      if (number !== searches) return;
    }
  }
  reportMatches();
  drawLater();
}

const escapePattern = (text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replaceAll("\\-", "-");

const test = (text) => {
  query.lastIndex = 0;
  return query.test(text);
};

function holds_match(row, ends, length) {
  let isFound = test(row[2]) || test(row[1]);
  for (const [name, index, text, fields] of row[3]) {
    if (text !== null && index !== null) {
      const whole = (ends.get(index) ?? "") + text;
      isFound ||= test(whole);
      ends.set(index, whole.slice(1 - length || whole.length));
    } else isFound ||= test(name) || (fields !== null && test(fields));
  }
  return isFound || row[4].some(([type, data]) => test(type) || test(data));
}

function reportMatches(progress = "") {
  const at = matches.flags?.[selected] ? matches.frames.indexOf(selected) + 1 : 0;
  const found = count(matches.frames.length, "frame");
  $("found").textContent = [at ? `${at} of ${found}` : found, progress].filter(Boolean).join(", ");
}

/** Select the next match, or the one before, over the ends of the list. */
function step(direction) {
  const { frames } = matches;
  if (!frames.length) return;
  const after = frames.findIndex((frame) => frame > selected);
  let at = after < 0 ? frames.length : after;
  if (direction < 0) at -= matches.flags[selected] ? 2 : 1;
  select(frames.at(at % frames.length), { detail: true });
  reportMatches();
}

function listenToSearch() {
  let waiting = 0;
  let last = Promise.resolve();
  const start = () => {
    clearTimeout(waiting);
    waiting = 0;
    last = search(field.value);
  };
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(start, 200);
  });
  field.form.addEventListener("submit", async (submit) => {
    submit.preventDefault();
    if (waiting) start();
    await last;
    step(1);
  });
  $("previous").addEventListener("click", () => step(-1));
}

// Keys

function listenToKeys() {
  document.addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey || $("help").open) return;
    if (press.target === field) {
      if (press.key === "Escape") {
        field.value = "";
        search("");
        list.focus();
      } else if (press.key === "Enter" && press.shiftKey) {
        press.preventDefault();
        step(-1);
      }
      return;
    }
    const act = actions[press.key] ?? (press.target === list ? ofList[press.key] : undefined);
    if (!act) return;
    press.preventDefault();
    act();
  });
  $("keys").addEventListener("click", () => $("help").showModal());
  $("theme").addEventListener("click", toggleTheme);
}

const page = () => Math.max(1, Math.floor(list.clientHeight / rowHeight()) - 1);
const actions = {
  "/": () => field.focus(),
  "?": () => $("help").showModal(),
  j: () => select(selected + 1, { focus: true }),
  k: () => select(selected - 1, { focus: true }),
  n: () => step(1),
  N: () => step(-1),
  t: toggleTheme,
  Escape: closeDetail,
};
const ofList = {
  ArrowDown: () => select(selected + 1),
  ArrowUp: () => select(selected - 1),
  PageDown: () => select(selected + page()),
  PageUp: () => select(selected - page()),
  Home: () => select(0),
  End: () => select(stream.frames - 1),
  Enter: () => select(selected, { detail: true }),
};

function toggleTheme() {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (isDark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
}

showFacts();
showBlocks();
showFrames();
listenToSearch();
listenToKeys();
