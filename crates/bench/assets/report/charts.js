// Draws the charts of the page from the data it carries. A chart has a line for each run and each
// of its columns: a broker has its colour, a column its stroke; with a single run a column has a
// colour. Part of the page's one script; page.js begins it. On paper
// there are the charts with a `key`: all of them, or those of use cases with messages or without.
const MS = 1e-3, MB = 1e-6;
const THIN = { width: 1.2, alpha: 0.65 }, DASHED = { css: "dashed", dash: [6, 4] }, DOTTED = { css: "dotted", dash: [2, 3] };
const SECTIONS = [
  ["Latency", [
    { quantiles: true, key: true },
    { heat: true },
    { title: "End-to-end latency", key: true, sub: "ms, from the intended send, log", messages: true, log: true, scale: MS,
      lines: [["p50", "latency_p50_us", DOTTED], ["p90", "latency_p90_us", DASHED], ["p99", "latency_p99_us"], ["max", "latency_max_us", THIN]] },
    { title: "Response time by kind, mean", sub: "ms, log", log: true, scale: MS,
      lines: [["connect", "connect_mean_us", DOTTED], ["subscribe", "subscribe_mean_us", DASHED], ["publish", "acknowledge_mean_us"]] },
    { title: "Response time by kind, p99", key: "connects", sub: "ms, log", log: true, scale: MS,
      lines: [["connect", "connect_p99_us", DOTTED], ["subscribe", "subscribe_p99_us", DASHED], ["publish", "acknowledge_p99_us"]] },
  ]],
  ["Throughput and success", [
    { title: "Published", sub: "messages per second", messages: true, planned: "publish_rate", lines: [["", "published_per_s"]] },
    { title: "Received", key: true, sub: "messages per second", messages: true, planned: "deliver_rate", lines: [["", "received_per_s"]] },
    { title: "Throughput by kind", sub: "per second, log", log: true,
      lines: [["connect", "connected_per_s", DOTTED], ["subscribe", "subscribed_per_s", DASHED], ["publish", "published_per_s"], ["acknowledged", "acknowledged_per_s", THIN]] },
    { title: "Overall throughput", sub: "operations of all kinds per second", lines: [["succeeded", "succeeded_per_s"], ["failed", "failed_per_s", DASHED]] },
    { title: "Success rate of deliveries", sub: "of those owed so far, not counting what arrived late; the axis counts nines", messages: true, nines: true, lines: [["", "loss_percent"]] },
    { title: "Deliveries under way", sub: "owed and not yet come", messages: true, lines: [["", "outstanding"]] },
    { title: "Failures by kind", sub: "in each interval", calm: "Nothing failed.",
      lines: [["connect", "connect_failures", DOTTED], ["subscribe", "subscribe_failures", DASHED], ["publish", "publish_failures"]] },
    { title: "Duplicated and reordered", sub: "deliveries in each interval", messages: true, calm: "None duplicated, none reordered.",
      lines: [["duplicated", "duplicated"], ["reordered", "reordered", DASHED]] },
  ]],
  ["Clients and bytes", [
    { title: "Virtual users", key: "connects", sub: "clients", present: true, lines: [["started", "started", DOTTED], ["active", "connections"], ["publishers", "publishers", THIN], ["subscribers", "subscribers", DASHED]] },
    { title: "Bytes to and from the broker", sub: "MB per second", scale: MB, lines: [["to", "bytes_out_per_s"], ["from", "bytes_in_per_s", DASHED]] },
    { title: "Bytes per message", sub: "both directions, including acknowledgements", messages: true, lines: [["", "bytes_per_message"]] },
  ]],
  ["Resources", [
    { title: "Broker CPU", key: true, sub: "cores", local: true, lines: [["all", "broker_cpu_cores"], ["user", "broker_cpu_user_cores", DASHED], ["system", "broker_cpu_system_cores", DOTTED]] },
    { title: "Broker memory", key: true, sub: "resident MB", local: true, scale: MB, lines: [["", "broker_rss_bytes"]] },
    { title: "Broker memory per connection", key: "connects", sub: "bytes above the baseline, by open connections", local: true, lines: [["", "bytes_per_connection"]] },
    { title: "Open files and threads of the broker", sub: "log", local: true, log: true, lines: [["files", "broker_files"], ["threads", "broker_threads", DASHED]] },
    { title: "Host memory in use", sub: "MB", scale: MB, lines: [["", "host_used_bytes"]] },
    { title: "Host CPU", sub: "cores of the whole host; stolen are those that other guests had", present: true, lines: [["busy", "host_cpu_cores"], ["stolen", "host_steal_cores", DASHED]] },
    { title: "Load generator CPU", sub: "cores", lines: [["", "generator_cpu_cores"]] },
    { title: "Load generator lag", key: true, sub: "ms late to send, log; where it is close to the latency, it is part of the latency", messages: true, log: true, scale: MS,
      lines: [["p99", "generator_lag_p99_us"], ["max", "generator_lag_max_us", THIN]] },
  ]],
];
const NINES = [0, 0.001, 0.01, 0.1, 1, 10, 100];
const QUANTILES = { 1: "0 %", 10: "90 %", 100: "99 %", 1e3: "99.9 %", 1e4: "99.99 %", 1e5: "99.999 %", 1e6: "99.9999 %", 1e7: "99.99999 %" };

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (at) => css("--c" + (at % 16));
const short = (v) => {
  if (v == null) return "";
  const [by, unit] = Math.abs(v) >= 1e9 ? [1e9, "G"] : Math.abs(v) >= 1e6 ? [1e6, "M"] : Math.abs(v) >= 1e4 ? [1e3, "k"] : [1, ""];
  return +(v / by).toPrecision(4) + unit;
};
const clock = (s) => (s < 120 ? +s.toFixed(1) + " s" : Math.floor(s / 60) + ":" + String(Math.round(s % 60)).padStart(2, "0"));
const success = (loss) => +(100 - loss).toFixed(4) + " %";

// The ends of decades; 1, 2 and 5 of each where there are few.
const decades = (u, axis, min, max) => {
  const found = [];
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++)
    for (const m of Math.log10(max / min) > 2.5 ? [1] : [1, 2, 5]) found.push(+(m * 10 ** e).toPrecision(3));
  return found.filter((v) => v >= min * 0.999 && v <= max * 1.001);
};
const axis = (more) => ({ stroke: css("--soft"), font: "11px system-ui", grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, ...more });

// Where a value has no neighbour there is no line to see it by.
const lonely = (values) => {
  const at = values.flatMap((v, i) => (v === undefined ? [] : [i]));
  return at.filter((i, k) => values[i] != null && values[at[k - 1]] == null && values[at[k + 1]] == null);
};

// Above the plot a strip of its phases for each run; behind it the first run's measure.
const phases = (runs) => ({
  hooks: { drawClear: [(u) => {
    const { ctx } = u, px = uPlot.pxRatio, { left, top, width, height } = u.bbox;
    const at = (s) => Math.min(Math.max(u.valToPos(s, "x", true), left), left + width);
    ctx.save();
    ctx.font = 10.5 * px + "px system-ui";
    ctx.textBaseline = "alphabetic";
    runs.forEach((run, r) => run.phases.forEach((phase) => {
      const x0 = at(phase.start_s), x1 = at(phase.end_s);
      ctx.globalAlpha = phase.name === "measure" ? 1 : 0.35;
      ctx.fillStyle = colour(run.colour);
      ctx.fillRect(x0 + px / 2, top - (4 * (runs.length - r) + 2) * px, Math.max(x1 - x0 - px, 0), 3 * px);
    }));
    ctx.globalAlpha = 1;
    // The names of the first run's, as far as there is room: measure before all others.
    const taken = [];
    [...runs[0].phases].sort((a, b) => (b.name === "measure") - (a.name === "measure")).forEach((phase) => {
      const x0 = at(phase.start_s), x1 = at(phase.end_s), end = x0 + ctx.measureText(phase.name).width;
      if (phase.name === "measure") { ctx.fillStyle = css("--band"); ctx.fillRect(x0, top, x1 - x0, height); }
      if (x1 <= x0 || end > left + width || taken.some(([a, b]) => x0 < b + 6 * px && end > a - 6 * px)) return;
      ctx.fillStyle = css("--soft");
      ctx.fillText(phase.name, x0, top - (4 * runs.length + 5) * px);
      taken.push([x0, end]);
    });
    marks(u, runs, at);
    ctx.restore();
  }] },
});

// Rows for words that would lie upon each other: the first row with room from one place to another,
// nothing where all are taken.
const rows = (most) => {
  const taken = Array.from({ length: most }, () => []);
  return (begin, end) => {
    const row = taken.findIndex((words) => words.every(([a, b]) => begin > b || end < a));
    if (row < 0) return null;
    taken[row].push([begin, end]);
    return row;
  };
};

// Moments of a run that explain a bend: a line across the plot and a word at its foot.
const marks = (u, runs, at) => {
  const { ctx } = u, px = uPlot.pxRatio, { left, top, width, height } = u.bbox;
  const known = new Set(), words = rows(4);
  runs.forEach((run) => run.marks.forEach((mark) => {
    if (known.has(mark.t_s + mark.label)) return;
    known.add(mark.t_s + mark.label);
    const x0 = at(mark.t_s), x1 = mark.until_s == null ? x0 : at(mark.until_s);
    ctx.fillStyle = css("--doubt");
    ctx.globalAlpha = 0.12;
    ctx.fillRect(x0, top, x1 - x0, height);
    ctx.globalAlpha = 1;
    ctx.fillRect(x0, top, px, height);
    const room = left + width - x0, length = ctx.measureText(mark.label).width + 4 * px;
    const begin = length + 2 * px > room ? x0 - length : x0 + 4 * px;
    const row = words(begin, begin + length);
    if (row != null) ctx.fillText(mark.label, begin, top + height - (6 + 13 * row) * px);
  }));
};

// A row for each run, a column for each line; values at the cursor; a click hides.
const legend = (card, runs, names, lines) => {
  const table = element("table", card, "", "legend"), cells = [];
  const head = element("tr", table);
  let plot;
  const off = new Set(lines.filter((line) => line.show === false).map((line) => line.name));
  const toggle = (button, what) => {
    button.type = "button";
    button.classList.toggle("off", off.has(what));
    button.setAttribute("aria-pressed", String(!off.has(what)));
    button.onclick = () => {
      if (button.classList.toggle("off")) off.add(what); else off.delete(what);
      button.setAttribute("aria-pressed", String(!off.has(what)));
      lines.forEach((line, at) => plot.setSeries(at + 1, { show: !off.has(line.name) && !off.has(line.run) }));
    };
  };
  const stamp = element("td", head);
  names.forEach((name) => {
    const line = lines.find((of) => of.name === name), cell = element("td", head), button = element("button", cell);
    const sample = element("i", button, "", "line");
    sample.style.borderTopStyle = line.css || "solid";
    if (line.alpha) { sample.style.opacity = line.alpha; sample.style.borderTopWidth = "1px"; }
    if (runs.length === 1) sample.style.borderTopColor = line.stroke;
    button.append(name);
    toggle(button, name);
  });
  if (!names.some(Boolean)) head.replaceChildren(stamp, element("td", head));
  runs.forEach((run) => {
    const row = element("tr", table), th = element("th", row), button = element("button", th);
    th.scope = "row";
    element("i", button, "", "mark").style.background = colour(run.colour);
    button.append(run.label);
    toggle(button, run);
    names.forEach((name) => {
      const at = lines.findIndex((of) => of.run === run && of.name === name);
      cells.push([element("td", row), at]);
    });
  });
  return {
    bind: (u) => { plot = u; },
    show: (u, stampOf) => {
      const { idx } = u.cursor;
      stamp.textContent = idx == null ? "" : stampOf(u.data[0][idx]);
      cells.forEach(([cell, at]) => { cell.textContent = idx == null || at < 0 ? "" : lines[at].text(u.data[at + 1][idx]); });
    },
  };
};

const draw = (box, use, runs, spec, lines, options, stampOf) => {
  const isKey = spec.key === true || spec.key === (use.has_messages ? "messages" : "connects");
  const card = element("div", box, "", isKey ? "chart" : "chart minor");
  element("h4", card, spec.title);
  element("p", card, spec.sub);
  const quiet = spec.calm && lines.every((line) => line.table[1].every((v) => !v));
  if (quiet) return void element("p", card, spec.calm, "calm");
  const place = element("div", card, "", "plot");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", spoken(spec, runs, lines));
  // All runs on one axis; where a run has no row it has undefined, which a line passes over.
  const data = uPlot.join(lines.map((line) => line.table), lines.map(() => [0, 1]));
  const names = [...new Set(lines.map((line) => line.name))];
  const table = legend(card, runs, names, lines);
  const size = () => ({ width: card.clientWidth - 24, height: isPaper() ? 150 : 236 });
  const plot = new uPlot({
    ...size(), legend: { show: false }, ...options,
    series: [{}].concat(lines.map((line, at) => ({ width: 1.8, ...line, points: { show: true, size: 5, fill: line.stroke, filter: () => lonely(data[at + 1]) } }))),
    hooks: { setCursor: [(u) => table.show(u, stampOf)] },
  }, data, place);
  table.bind(plot);
  behind(card, spec, runs, lines, stampOf);
  let width = card.clientWidth;
  const observer = new ResizeObserver(() => {
    if (card.clientWidth === width) return;
    width = card.clientWidth;
    plot.setSize(size());
  });
  observer.observe(card);
  drawn.push(() => { observer.disconnect(); plot.destroy(); });
};

const drawTimes = (box, use, spec) => {
  const runs = shown(use).filter((run) => run.columns.t_s.length && (!spec.local || run.local));
  if (!runs.length || (spec.messages && !use.has_messages)) return;
  const text = spec.nines ? (v) => (v == null ? "" : success(v)) : short;
  const lines = runs.flatMap((run) => spec.lines.map(([name, column, style], l) => {
    const values = run.columns[column].map((v) => (v == null || (spec.log && v <= 0) ? null : v * (spec.scale || 1)));
    const single = runs.length === 1 && spec.lines.length > 1;
    return { name, run, text, ...style, dash: single ? undefined : style?.dash, css: single ? "solid" : style?.css,
      stroke: colour(single ? run.colour + l : run.colour), table: [run.columns.t_s, values] };
  })).filter((line) => !(spec.log || spec.present) || line.table[1].some(Boolean));
  if (!lines.length) return;
  // With many runs only the line that matters is drawn at first: the solid one.
  const hasSolid = lines.some((line) => !line.css && !line.alpha);
  if (runs.length > 2 && hasSolid) lines.forEach((line) => { if (line.css || line.alpha) line.show = false; });
  if (lines.every((line) => line.name === lines[0].name)) lines.forEach((line) => { line.dash = line.css = undefined; });
  const planned = spec.planned && use[spec.planned];
  const worst = Math.max(...lines.map((line) => line.table[1].reduce((a, v) => Math.max(a, v ?? 0), 0)));
  const y = spec.log ? { distr: 3 }
    : spec.nines ? { distr: 4, asinh: 0.001, dir: -1, range: [-0.0002, worst > 10 ? 100 : worst > 1 ? 10 : 1] }
    : { range: [0, Math.max(worst, planned || 0) * 1.08 || 1] };
  const marks = spec.log ? { splits: decades } : spec.nines ? { splits: (u, a, min, max) => NINES.filter((v) => v <= max) } : {};
  const rule = { hooks: { draw: [(u) => {
    if (!planned) return;
    const { ctx } = u, at = u.valToPos(planned, "y", true);
    ctx.save();
    ctx.strokeStyle = css("--soft");
    ctx.setLineDash([3 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    ctx.beginPath(); ctx.moveTo(u.bbox.left, at); ctx.lineTo(u.bbox.left + u.bbox.width, at); ctx.stroke();
    ctx.restore();
  }] } };
  draw(box, use, runs, planned ? { ...spec, sub: spec.sub + "; the thin line is the plan, " + short(planned) } : spec, lines, {
    padding: [20 + 4 * runs.length, 14, 0, 0],
    cursor: { y: false, sync: { key: use.name } },
    plugins: [phases(runs), rule],
    scales: { x: { time: false, range: (u, min, max) => [Math.min(0, min), max] }, y },
    axes: [
      axis({ size: 28, values: (u, v) => v.map(clock), incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200], space: 60 }),
      axis({ size: 58, values: (u, v) => v.map(spec.nines ? success : short), ...marks }),
    ],
  }, clock);
};

// The x axis is 1 / (1 - quantile) on a log axis: every nine has the same room.
const drawQuantiles = (box, use) => {
  const runs = shown(use).filter((run) => run.quantiles.length);
  if (!runs.length) return;
  const lines = runs.map((run) => ({ name: "", run, text: (v) => (v == null ? "" : short(v) + " ms"), stroke: colour(run.colour),
    table: [run.quantiles.map((q) => q[0]), run.quantiles.map((q) => Math.max(q[1] * MS, MS))] }));
  const last = Math.max(...lines.map((line) => line.table[0].at(-1)));
  const spec = { key: true, title: (use.has_messages ? "End-to-end" : "Connect") + " latency by percentile", sub: "ms, log" };
  draw(box, use, runs, spec, lines, {
    padding: [12, 24, 0, 0],
    cursor: { y: false },
    scales: { x: { time: false, distr: 3, range: [1, last] }, y: { distr: 3 } },
    axes: [axis({ size: 28, splits: decades, values: (u, v) => v.map((x) => QUANTILES[x] || "") }), axis({ size: 58, splits: decades, values: (u, v) => v.map(short) })],
  }, (x) => +(100 * (1 - 1 / x)).toPrecision(6) + " %");
};
