"use strict";
// The page of a command's runs: the state and then its events (server-sent), and the kept runs.
// Text from outside is only ever set as text.

const ROWS_MAX = 3600, MARKS_MAX = 200, CHOSEN_MAX = 6, DRAWN_EVERY_MS = 400;
const cores = (c) => c.toFixed(2);
const short = (name) => name.replace(/^singlenode-/, "");
const brokerCores = (row) => row.broker_cpu_user_cores + row.broker_cpu_system_cores;
const VERDICT = { passed: "good", failed: "bad", invalid: "doubt", aborted: "doubt", unsupported: "soft" };

// What is drawn. `of` reads a row; what it gives null for has no point.
const positive = (value) => value > 0 ? value : null;
const CHARTS = [
  { title: "Latency from the intended time", text: time, log: true, for: "messages", lines: [
    ["p50", (row) => positive(row.latency_p50_us)], ["p90", (row) => positive(row.latency_p90_us)],
    ["p99", (row) => positive(row.latency_p99_us)], ["max", (row) => positive(row.latency_max_us)]] },
  { title: "CONNECT to CONNACK, p99", text: time, log: true, for: "connections", lines: [["p99", (row) => positive(row.connect_p99_us)]] },
  { title: "Messages per second", text: count, for: "messages", lines: [
    ["sent", (row) => row.published_per_s], ["received", (row) => row.received_per_s]] },
  { title: "Connections", text: count, for: "connections", lines: [["open", (row) => row.connections]] },
  { title: "Connections per second", text: count, for: "connections", lines: [["made", (row) => row.connected_per_s]] },
  { title: "Deliveries outstanding", text: count, for: "messages", lines: [["owed", (row) => row.outstanding]] },
  { title: "CPU in cores", text: cores, least: 0.01, lines: [["broker", brokerCores], ["of it in the kernel", (row) => row.broker_cpu_system_cores],
    ["load generator", (row) => row.generator_cpu_cores]] },
  { title: "Broker's memory", text: bytes, lines: [["resident", (row) => positive(row.broker_rss_bytes)], ["PSS", (row) => row.broker_pss_bytes]] },
  { title: "Network of the host", text: (b) => bytes(b) + "/s", lines: [["loopback", (row) => row.loopback_bytes_per_s],
    ["in", (row) => row.net_received_bytes_per_s], ["out", (row) => row.net_sent_bytes_per_s]] },
  { title: "Context switches per second", text: count, lines: [["broker", (row) => row.context_switches_per_s]] },
  { title: "Disk, bytes per second", text: (b) => bytes(b) + "/s", lines: [["read", (row) => row.disk_read_bytes_per_s],
    ["written", (row) => row.disk_written_bytes_per_s]] },
  { title: "Generator's own lag", text: time, log: true, for: "messages", lines: [
    ["p99", (row) => positive(row.generator_lag_p99_us)], ["max", (row) => positive(row.generator_lag_max_us)]] },
];
const suits = (chart, hasMessages) => !chart.for || (chart.for === "messages") === hasMessages;
// ---- Live ----
let state = { cells: [], run: null }, liveCharts = [], isDrawing = false;

function apply({ event, of }) {
  const run = state.run;
  if (event === "planned") state.cells = of.map((cell) => ({ ...cell, is_begun: false, ended: null }));
  if (event === "started") {
    const cell = state.cells.find((known) => !known.is_begun && known.use_case === of.use_case && known.broker === of.driver);
    if (cell) cell.is_begun = true;
    else state.cells.push({ use_case: of.use_case, broker: of.driver, is_begun: true, ended: null });
    state.run = { started: of, phases: [], rows: [], marks: [], totals: {}, ended: null };
    liveCharts = [];
  }
  if (event === "phase") run?.phases.push(of);
  if (event === "interval" && run) {
    run.rows.push(of);
    if (run.rows.length > ROWS_MAX) run.rows.shift();
    for (const name of ["connect_failures", "subscribe_failures", "publish_failures", "duplicated", "reordered"])
      run.totals[name] = (run.totals[name] || 0) + of[name];
  }
  if (event === "mark" && run) { run.marks.push(of); if (run.marks.length > MARKS_MAX) run.marks.shift(); }
  if (event === "ended") {
    if (run) run.ended = of;
    const cell = state.cells.findLast((known) => known.is_begun && !known.ended);
    if (cell) cell.ended = of;
  }
  later();
}

function later() {
  if (isDrawing) return;
  isDrawing = true;
  setTimeout(() => { isDrawing = false; if (!document.hidden) show(); }, DRAWN_EVERY_MS);
}
document.addEventListener("visibilitychange", later);

const columns = (chart, rows) => [rows.map((row) => row.t_s), ...chart.lines.map(([, of]) => rows.map((row) => of(row) ?? null))];

function show() {
  showCells();
  const run = state.run;
  if (!run) return;
  const of = run.started;
  id("run").textContent = `${short(of.use_case)} on ${of.broker}`;
  id("about").textContent = `${of.about}; ${of.address}, profile ${of.profile}${of.note ? "; " + of.note : ""}`;
  document.title = `${short(of.use_case)} - weir bench`;
  showPhases(run);
  showFigures(run);
  fill(id("marks"), run.marks.length ? run.marks.map((mark) => make("li", `${mark.t_s.toFixed(1)} s  ${mark.text}`)) : [make("li", "none", "soft")]);
  const hasMessages = of.publish_rate_per_s > 0;
  const all = CHARTS.filter((chart) => suits(chart, hasMessages));
  if (!liveCharts.length) {
    id("charts").replaceChildren();
    liveCharts = all.map((chart) => [chart, draw(id("charts"), chart, chart.lines.map(([name]) => name), columns(chart, run.rows),
      () => run.marks.map((mark) => [mark.t_s, mark.text]), () => run.phases.map((phase) => [phase.t_s, phase.name]))]);
  } else liveCharts.forEach(([chart, drawn]) => drawn.set(columns(chart, run.rows)));
}

function showPhases(run) {
  const now = run.ended ? null : run.phases.at(-1), t = run.rows.at(-1)?.t_s ?? 0;
  // One shorter than an interval is in no row: what stands before the phase under way is over.
  const at = run.ended ? run.started.phases.length : run.started.phases.findIndex((phase) => phase.name === now?.name);
  fill(id("phases"), run.started.phases.map(({ name, length_s }, place) => {
    const isNow = now?.name === name, spent = isNow ? Math.max(0, t - now.t_s) : 0;
    const item = make("li"), bar = make("progress");
    const left = isNow && length_s ? `, ${Math.max(0, length_s - spent).toFixed(0)} s left` : "";
    bar.max = 1;
    bar.value = isNow ? (length_s ? Math.min(1, spent / length_s) : 0.5) : place < at ? 1 : 0;
    bar.setAttribute("aria-label", name);
    if (isNow) item.setAttribute("aria-current", "step");
    item.append(name + left, bar);
    return item;
  }));
}

function showFigures(run) {
  const row = run.rows.at(-1), of = run.started, list = [];
  const tile = (name, value, beside, kind) => {
    const box = make("div"), dd = make("dd", value + " ", kind);
    if (beside) dd.append(make("small", beside));
    box.append(make("dt", name), dd);
    list.push(box);
  };
  if (!row) return fill(id("figures"), list);
  tile("connections", count(row.connections), `of ${count(of.connections)}`);
  if (of.publish_rate_per_s > 0) {
    tile("messages out /s", count(row.published_per_s), `of ${count(of.publish_rate_per_s)}`);
    tile("messages in /s", count(row.received_per_s), `of ${count(of.deliver_rate_per_s)}`);
    tile("p50", time(row.latency_p50_us));
    tile("p99", time(row.latency_p99_us), `max ${time(row.latency_max_us)}`);
    tile("outstanding", count(row.outstanding));
  } else {
    tile("connections made /s", count(row.connected_per_s));
    tile("connect p99", time(row.connect_p99_us));
  }
  const troubles = Object.entries({ connect_failures: "connections failed", subscribe_failures: "subscriptions failed", publish_failures: "refused",
    duplicated: "came twice", reordered: "reordered" }).filter(([name]) => run.totals[name] > 0).map(([name, text]) => `${count(run.totals[name])} ${text}`);
  tile("troubles", troubles.join(", ") || "none", "", troubles.length ? "bad" : "good");
  if (of.is_watched) {
    tile("broker's CPU", cores(brokerCores(row)), "cores");
    tile("broker's memory", bytes(row.broker_rss_bytes), `${row.broker_threads} threads, ${count(row.broker_files)} files`);
  }
  const isLate = row.generator_lag_p99_us > Math.max(10000, row.latency_p99_us / 10), isBusy = row.generator_cpu_cores > 0.95;
  tile("generator", isLate ? "late" : isBusy ? "busy" : "healthy", `${cores(row.generator_cpu_cores)} cores, lag ${time(row.generator_lag_p99_us)}`, isLate || isBusy ? "bad" : "good");
  if (run.ended) tile("verdict", run.ended.status, run.ended.reasons.join("; "), VERDICT[run.ended.status]);
  fill(id("figures"), list);
}

function showCells() {
  fill(id("cells"), state.cells.map((cell) => {
    const item = make("li", `${short(cell.use_case)} on ${cell.broker}`, cell.is_begun && !cell.ended ? "now" : "");
    if (cell.ended) item.append(" ", make("span", cell.ended.status, VERDICT[cell.ended.status]), cell.ended.p99_us === null ? "" : ` p99 ${time(cell.ended.p99_us)}`);
    else item.append(" ", make("span", cell.is_begun ? "runs" : "waits", "soft"));
    return item;
  }));
}

function listen() {
  const source = new EventSource("events");
  source.addEventListener("state", (message) => { state = JSON.parse(message.data); liveCharts = []; if (!state.cells.length && !state.run && !location.hash) location.replace("#runs"); id("link").textContent = "live"; later(); });
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.event !== "over") return apply(event);
    source.close();
    id("link").textContent = "the command has ended";
  };
  source.onerror = () => {
    const isOver = source.readyState === EventSource.CLOSED;
    id("link").textContent = isOver ? "the command has ended, or too many pages listen; reload to try again" : "out of reach; trying again";
  };
}

// ---- Stored runs ----
let stored = [], chosen = new Map();

async function readStored() {
  const answer = await fetch("runs").catch(() => null);
  stored = answer?.ok ? await answer.json() : stored;
  showStored();
}

function showStored() {
  const wanted = id("filter").value.toLowerCase();
  const list = stored.filter((run) => `${run.id} ${run.use_case} ${run.broker} ${run.status}`.toLowerCase().includes(wanted));
  id("count").textContent = `${list.length} of ${stored.length} runs`;
  fill(id("stored"), list.map((run) => {
    const line = make("tr"), tick = make("input"), cell = make("td");
    tick.type = "checkbox"; tick.checked = chosen.has(run.id);
    tick.setAttribute("aria-label", `Compare ${run.id}`);
    tick.disabled = !tick.checked && chosen.size >= CHOSEN_MAX;
    tick.addEventListener("change", () => choose(run, tick.checked));
    cell.append(tick);
    const name = make("td", undefined, "text");
    if (run.has_report) {
      const link = make("a", short(run.use_case));
      link.href = `runs/${encodeURIComponent(run.id)}/report`;
      name.append(link);
    } else name.textContent = short(run.use_case);
    line.append(cell, name, make("td", run.broker, "text"), make("td", run.started.replace("T", " ").replace("Z", ""), "text"),
      make("td", run.status, `text ${VERDICT[run.status]}`), make("td", run.scale), make("td", count(run.received_per_s)),
      make("td", or(run.p50_us, time)), make("td", or(run.p99_us, time)), make("td", count(run.lost)),
      make("td", or(run.cpu_cores, cores)), make("td", or(run.rss_bytes, bytes)));
    return line;
  }));
}

async function choose(run, isChosen) {
  chosen.delete(run.id);
  if (isChosen) {
    const answer = await fetch(`runs/${encodeURIComponent(run.id)}`).catch(() => null);
    if (answer?.ok) chosen.set(run.id, { ...run, result: await answer.json() });
  }
  showStored();
  showCompared();
}

// A name, and what it reads off a result.
const latencyOf = (result) => result.latencies[result.use_case.qos === null ? "connect" : "end_to_end"];
const SIDES = [
  ["verdict", (r) => r.verdict.status], ["why", (r) => r.verdict.reasons.join("; ") || "-"], ["begun", (r) => r.suite.started],
  ["scale", (r) => r.use_case.scale], ["seconds measured", (r) => r.use_case.duration_s],
  ["messages out /s", (r) => count(r.rates.published)], ["messages in /s", (r) => count(r.rates.received)],
  ["success", (r) => (r.rates.success * 100).toFixed(3) + " %"], ["lost", (r) => r.measure.lost], ["reordered", (r) => r.measure.reordered],
  ...["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map((name) => [name.replace("_us", "").replace("p999", "p99.9"), (r) => or(latencyOf(r)?.[name], time)]),
  ["CPU cores", (r) => or(r.resources?.cpu_cores_avg, cores)], ["CPU us per delivery", (r) => or(r.resources?.cpu_us_per_delivery, (us) => us.toFixed(2))],
  ["messages per core-second", (r) => or(r.system?.messages_per_core_s, count)],
  ["KiB per connection", (r) => or(r.system?.kib_per_connection, (kib) => kib.toFixed(1))],
  ["memory stable at", (r) => or(r.resources?.rss_stable_bytes, bytes)], ["generator cores", (r) => cores(r.generator.cpu_cores_avg)],
  ["host", (r) => `${r.host.cores} x ${r.host.cpu_model}`], ["kernel", (r) => r.host.kernel], ["weir", (r) => `${r.suite.version} ${r.suite.commit}`],
];

// What must be the same for figures to be set beside each other.
const SAME = [["use case", (r) => r.use_case.name], ["revision of the use case", (r) => r.use_case.file_sha256], ["scale", (r) => r.use_case.scale],
  ["duration", (r) => r.use_case.duration_s], ["host", (r) => r.host.cpu_model + r.host.cores + r.host.kernel]];

function showCompared() {
  const runs = [...chosen.values()];
  id("compare").hidden = runs.length === 0;
  if (!runs.length) return;
  const differ = SAME.filter(([, of]) => new Set(runs.map((run) => of(run.result))).size > 1).map(([name]) => name);
  id("warning").textContent = differ.length ? `Not the same in: ${differ.join(", ")}. Their figures say little about each other.` : "";
  const head = make("tr"), body = make("tbody"), top = make("thead");
  head.append(make("td"), ...runs.map((run) => { const cell = make("th", `${short(run.use_case)}, ${run.broker}`); cell.scope = "col"; return cell; }));
  top.append(head);
  for (const [name, of] of SIDES) {
    const line = make("tr"), title = make("th", name);
    title.scope = "row";
    line.append(title, ...runs.map((run) => make("td", of(run.result))));
    body.append(line);
  }
  fill(id("sides"), [top, body]);
  id("compared").replaceChildren();
  const hasMessages = runs.some((run) => run.has_messages);
  for (const chart of CHARTS.filter((chart) => suits(chart, hasMessages))) {
    // Of several lines the one that tells most: the last percentile but the maximum, or the first.
    const [name, of] = chart.lines.find(([name]) => name === "p99" || name === "received") ?? chart.lines[0];
    const tables = runs.map((run) => [run.result.series.map((row) => row.t_s), run.result.series.map((row) => of(row) ?? null)]);
    draw(id("compared"), { ...chart, title: chart.lines.length > 1 ? `${chart.title}: ${name}` : chart.title }, runs.map((run) => run.broker), uPlot.join(tables), () => [], () => []);
  }
}

function route() {
  const isRuns = location.hash === "#runs";
  id("live").hidden = isRuns; id("runs").hidden = !isRuns;
  for (const [link, isHere] of [[id("to-live"), !isRuns], [id("to-runs"), isRuns]])
    if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  if (isRuns) readStored();
}
const repaint = () => liveCharts.forEach(([, drawn]) => drawn.redraw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
addEventListener("hashchange", route);
id("filter").addEventListener("input", showStored);
id("again").addEventListener("click", readStored);
route();
listen();
