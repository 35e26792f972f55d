"use strict";

// Everything that comes from the gateway is written by `textContent`: names of models are chosen
// by clients, and reasons by upstreams.

const MAX_ROWS = 200;
const RECENT_MINUTES = 5;

const REASONS = {
  refused: "connection refused",
  dns: "name does not resolve",
  tls: "TLS handshake failed",
  connect: "no connection",
  timeout: "timed out",
  reset: "connection lost",
  protocol: "not HTTP",
  transport: "connection lost",
  truncated: "ended early",
  stalled: "stalled",
  malformed: "broke the protocol",
  too_large: "too large",
  upstream: "error of the upstream",
};
const TONES = {
  completed: "good",
  abandoned: "",
  refused: "warn",
  truncated: "bad",
  failed: "bad",
  healthy: "good",
  unsteady: "warn",
  failing: "bad",
  answering: "good",
};

const state = { about: null, totals: null, minutes: [], upstreams: [], models: [], running: [] };
let ended = []; // the newest first

const find = (id) => document.getElementById(id);

// Formatting

const whole = new Intl.NumberFormat("en");
const number = (value) => (value === undefined || value === null ? "" : whole.format(value));

function seconds(value) {
  if (value === undefined || value === null) return "";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(2)} s`;
  if (value < 60) return `${value.toFixed(1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

const rate = (value) => (value ? (value < 10 ? value.toFixed(1) : number(Math.round(value))) : "");

function ago(at) {
  return at ? `${seconds(Math.max(Math.round(Date.now() / 1000 - at), 1)).replace(/\.\d+/, "")} ago` : "";
}

const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

function counts(values) {
  const entries = Object.entries(values).sort((a, b) => b[1] - a[1]);
  return entries.map(([name, count]) => `${REASONS[name] ?? name}${count > 1 ? ` × ${number(count)}` : ""}`).join(", ");
}

function reason(row) {
  const parts = [row.reason ?? row.error].filter(Boolean).map((word) => REASONS[word] ?? word);
  if (row.code && parts[0] === REASONS.upstream) parts[0] = row.code;
  else if (row.code && row.code !== row.error) parts.push(row.code);
  if (row.path) parts.push(row.path);
  for (const failure of row.failures ?? []) {
    const why = REASONS[failure.reason ?? failure.error] ?? `status ${failure.status}`;
    if (row.outcome === "completed" || failure.upstream !== row.upstream) parts.push(`${failure.upstream}: ${why}`);
  }
  return parts.join("; ");
}

const tokens = (row) => [row.input_tokens, row.output_tokens].map((count) => number(count) || "?").join(" → ").replace("? → ?", "");

const client = (row) => (row.client_key ? `${row.client}, key ${row.client_key}` : row.client);

// Elements

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function badge(text) {
  return element("span", `badge ${TONES[text] ?? ""}`.trim(), text);
}

// What leads to the timeline of a request, where there is one.
function link(row, text) {
  if (!row.timeline) return text;
  const made = element("a", "", text);
  made.href = `dashboard/timeline?of=${encodeURIComponent(row.timeline)}`;
  made.target = "_blank";
  made.title = "Timeline";
  return made;
}

// A column: its label, what it shows of a row (a text or an element), and its class.
const COLUMNS = {
  running: [
    ["Age", (row) => link(row, seconds(row.age_s)), "number"],
    ["Client", client],
    ["Operation", (row) => row.operation],
    ["Model", (row) => row.model, "wide"],
    ["Upstream", (row) => row.upstream],
    ["State", (row) => badge(row.state)],
    ["Attempts", (row) => number(row.attempts), "number"],
    ["First event", (row) => seconds(row.first_event_s), "number"],
    ["Events", (row) => number(row.events || null), "number"],
    ["Events/s", (row) => rate(row.first_event_s === null ? 0 : row.events / (row.age_s - row.first_event_s)), "number"],
    ["Tokens out", (row) => number(row.output_tokens), "number"],
  ],
  upstreams: [
    ["Name", (row) => row.name, "wide"],
    ["Dialect", (row) => row.dialect],
    ["Health", (row) => badge(row.health)],
    ["Requests", (row) => number(row.requests), "number"],
    ["Failures", (row) => number(row.failures), "number"],
    ["Retries", (row) => number(row.retries), "number"],
    ["Last failure", (row) => ago(row.failed_at)],
    ["Reasons", (row) => counts(row.reasons), "wide"],
  ],
  models: [
    ["Model", (row) => row.name, "wide"],
    ["Requests", (row) => number(row.requests), "number"],
    ["Failures", (row) => number(row.failures), "number"],
    ["First event p50", (row) => seconds(row.first_event_p50_s), "number"],
    ["p95", (row) => seconds(row.first_event_p95_s), "number"],
    ["Tokens/s", (row) => rate(row.tokens_per_s), "number"],
    ["Tokens in", (row) => number(row.input_tokens), "number"],
    ["Tokens out", (row) => number(row.output_tokens), "number"],
  ],
  ended: [
    ["Time", (row) => link(row, clock(row.at))],
    ["Client", client],
    ["Operation", (row) => row.operation ?? ""],
    ["Model", (row) => row.model ?? "", "wide"],
    ["Upstream", (row) => row.upstream ?? ""],
    ["Status", (row) => String(row.status || ""), "number"],
    ["Outcome", (row) => badge(row.outcome)],
    ["Reason", (row) => reason(row), "wide"],
    ["Attempts", (row) => number(row.attempts || null), "number"],
    ["First event", (row) => seconds(row.first_event_s), "number"],
    ["Duration", (row) => seconds(row.duration_s), "number"],
    ["Tokens", tokens, "number"],
    ["Tokens/s", (row) => rate(row.tokens_per_s), "number"],
    ["Losses", (row) => counts(row.losses ?? {}), "wide"],
  ],
  losses: [
    ["Feature", (row) => row.name, "wide"],
    ["Count", (row) => number(row.count), "number"],
  ],
};
const EMPTY = {
  running: "No request is running.",
  upstreams: "No upstream.",
  models: "No request has named a model.",
  ended: "No request has ended.",
  losses: "Nothing was lost.",
};
const IS_PROBLEM = {
  running: (row) => row.attempts > 1,
  upstreams: (row) => row.health === "failing" || row.health === "unsteady",
  models: (row) => row.failures > 0,
  ended: (row) => TONES[row.outcome] === "bad" || TONES[row.outcome] === "warn" || Boolean(row.failures),
  losses: () => true,
};

function makeRow(columns, row) {
  const line = element("tr");
  for (const [label, show, className] of columns) {
    const cell = element("td", className);
    cell.dataset.label = label;
    const shown = show(row);
    if (shown instanceof Node) cell.append(shown);
    else if (shown) cell.append(element("span", "", shown));
    line.append(cell);
  }
  return line;
}

function makeTable(name, rows) {
  const table = element("table");
  const head = element("tr");
  for (const [label, , className] of COLUMNS[name]) {
    const cell = element("th", className, label);
    cell.scope = "col";
    head.append(cell);
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  body.append(...rows.map((row) => makeRow(COLUMNS[name], row)));
  table.append(top, body);
  return table;
}

function textOf(row) {
  return Object.values(row)
    .map((value) => (value && typeof value === "object" ? JSON.stringify(value) : String(value ?? "")))
    .concat(row.outcome ? [reason(row)] : [], row.client_key ? [client(row)] : [])
    .join("\n")
    .toLowerCase();
}

function rowsOf(name) {
  if (name === "ended") return ended;
  if (name !== "losses") return state[name];
  return Object.entries(state.totals?.losses ?? {}).map(([feature, count]) => ({ name: feature, count }));
}

function drawSection(name) {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const onlyProblems = find("problems").checked;
  const rows = rowsOf(name);
  const shown = rows.filter((row) => {
    if (onlyProblems && !IS_PROBLEM[name](row)) return false;
    if (!words.length) return true;
    const text = textOf(row);
    return words.every((word) => text.includes(word));
  });
  const total = name === "running" ? state.about?.running_count ?? rows.length : rows.length;
  const section = find(name);
  section.querySelector(".count").textContent =
    shown.length === total ? number(total) : `${number(shown.length)} of ${number(total)}`;
  if (!section.open) return;
  const empty = element("p", "empty", rows.length ? "Nothing matches." : EMPTY[name]);
  section.querySelector(".scroll").replaceChildren(shown.length ? makeTable(name, shown) : empty);
}

// The top of the page

function recent(minutes) {
  const now = Math.floor(Date.now() / 60000);
  const sums = [0, 0, 0];
  for (const [minute, ...values] of state.minutes) {
    if (minute > now - minutes) values.forEach((value, at) => (sums[at] += value));
  }
  return sums;
}

function middle(values) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.ceil(sorted.length / 2) - 1] : null;
}

function drawTiles() {
  const [requests, failures] = recent(60);
  const [lately, , written] = recent(RECENT_MINUTES);
  const endings = state.totals?.endings ?? {};
  const all = Object.values(endings).reduce((sum, count) => sum + count, 0);
  const share = requests ? ` (${((100 * failures) / requests).toFixed(1)} %)` : "";
  const { input_tokens: input, output_tokens: output, cached_tokens: cached } = state.totals ?? {};
  const tiles = [
    ["Running", number(state.about?.running_count ?? 0), ""],
    ["Requests a minute", rate(lately / RECENT_MINUTES) || "0", `${number(all)} since the start`],
    ["Failed in 60 minutes", number(failures), `of ${number(requests)}${share}`],
    ["First event", seconds(middle(ended.map((row) => row.first_event_s))) || "–", "median of the last requests"],
    ["Output", rate(written / RECENT_MINUTES) || "0", "tokens a minute"],
    ["Tokens", `${number(input ?? 0)} in`, `${number(output ?? 0)} out, ${number(cached ?? 0)} from caches`],
  ];
  find("tiles").replaceChildren(
    ...tiles.map(([name, value, note]) => {
      const tile = element("div");
      tile.append(element("dt", "", name), element("dd", "", value), element("dd", "note", note));
      return tile;
    }),
  );
}

function bar(className, x, height) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const sizes = { class: className, x: x + 1, width: 8, y: 60 - height, height };
  for (const [name, value] of Object.entries(sizes)) made.setAttribute(name, value);
  return made;
}

function drawChart() {
  const now = Math.floor(Date.now() / 60000);
  const peak = Math.max(...state.minutes.map(([, requests]) => requests), 1);
  const bars = [];
  const byMinute = new Map(state.minutes.map((minute) => [minute[0], minute]));
  for (let at = 0; at < 60; at += 1) {
    const [, requests, failures] = byMinute.get(now - 59 + at) ?? [0, 0, 0];
    if (!requests) bars.push(bar("base", at * 10, 1));
    else {
      bars.push(bar("requests", at * 10, Math.max((58 * requests) / peak, 2)));
      if (failures) bars.push(bar("failures", at * 10, Math.max((58 * failures) / peak, 2)));
    }
  }
  find("chart").replaceChildren(...bars);
  const [requests, failures] = recent(60);
  find("chart").setAttribute("aria-label", `${requests} requests in 60 minutes, ${failures} of them failed`);
  find("peak").textContent = requests ? `highest ${number(peak)}` : "";
}

function drawAbout() {
  const { processes = [], started_at: startedAt } = state.about ?? {};
  const hosts = [...new Set(processes.map((name) => name.split("@").slice(1).join("@")))].join(", ");
  const count = processes.length > 1 ? `sum of ${processes.length} processes` : `process ${processes[0]?.split("@")[0]}`;
  find("about").textContent = processes.length ? `${count} on ${hosts}, started ${ago(startedAt)}` : "";
}

function draw() {
  drawAbout();
  drawTiles();
  drawChart();
  for (const name of Object.keys(COLUMNS)) drawSection(name);
}

// The events

function show(word, text) {
  find("status").dataset.state = word;
  find("status").textContent = text;
}

function receive(event) {
  const { ended: newer = [], ...changed } = JSON.parse(event.data);
  Object.assign(state, changed);
  ended = [...newer.reverse(), ...ended].slice(0, MAX_ROWS);
  if (find("pause").checked) return;
  show("live", "Live");
  draw();
}

function listen() {
  const source = new EventSource("dashboard/events");
  source.onopen = () => {
    ended = []; // the first event has all of them
  };
  source.onmessage = receive;
  source.onerror = async () => {
    show("lost", "Connection lost");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again
    // It does not say with which status the gateway has refused.
    const asking = new AbortController();
    const answer = await fetch("dashboard/events", { signal: asking.signal }).catch(() => null);
    if (answer?.status === 401) location.reload(); // the session has ended
    else if (answer && !answer.ok) show("lost", (await answer.text()).trim());
    asking.abort();
    setTimeout(listen, 5000);
  };
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target.tagName !== "INPUT") {
    event.preventDefault();
    find("search").focus();
  } else if (event.key === "Escape" && event.target === find("search")) {
    find("search").value = "";
    draw();
  }
});
find("search").addEventListener("input", draw);
find("problems").addEventListener("change", draw);
find("pause").addEventListener("change", (event) => {
  if (event.target.checked) show("waiting", "Paused");
  else {
    show("live", "Live");
    draw();
  }
});
for (const name of Object.keys(COLUMNS)) find(name).addEventListener("toggle", () => drawSection(name));
// Ages go on while the gateway has nothing to say.
setInterval(() => find("pause").checked || draw(), 5000);
draw();
listen();
