"use strict";
// Draws the charts of the page from the data it carries.
(() => {
  const uses = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = ["#0b84a5", "#d1495b", "#6f9f2e", "#8d5bc4", "#e0912a", "#3a6ea5", "#b0478f", "#5e6b73"];
  // Several runs in a chart: one hue a run, one shade a line.
  const HUES = [
    ["#0b84a5", "#5cb8d1", "#075c78", "#93d4e6"], ["#d1495b", "#e88d98", "#94303e", "#f0b8bf"],
    ["#6f9f2e", "#a5c96f", "#4c6f1d", "#c9e0a5"], ["#8d5bc4", "#b795dd", "#5f3a8a", "#d5c2ec"],
  ];
  const colour = (runs, r, l) => (runs > 1 ? HUES[r % HUES.length][l % 4] : COLOURS[l % COLOURS.length]);
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const si = (v) => {
    if (v == null) return "-";
    const a = Math.abs(v);
    if (a >= 1e9) return +(v / 1e9).toPrecision(3) + "G";
    if (a >= 1e6) return +(v / 1e6).toPrecision(3) + "M";
    if (a >= 1e4) return +(v / 1e3).toPrecision(3) + "k";
    return String(+v.toPrecision(3));
  };

  // One chart of a use case: a line for each run and each of its columns.
  const CHARTS = [
    { title: "Rates", unit: "/s", lines: [["published", "published_per_s"], ["received", "received_per_s"]], messages: true },
    { title: "End-to-end latency, from the intended time", unit: "ms, log", log: true, scale: 1e-3, lines: [["p50", "latency_p50_us"], ["p90", "latency_p90_us"], ["p99", "latency_p99_us"], ["max", "latency_max_us"]], messages: true },
    { title: "Response time by kind (mean)", unit: "ms, log", log: true, scale: 1e-3, lines: [["connect", "connect_mean_us"], ["subscribe", "subscribe_mean_us"], ["publish", "acknowledge_mean_us"]] },
    { title: "Throughput by kind", unit: "/s", lines: [["connect", "connected_per_s"], ["subscribe", "subscribed_per_s"], ["publish", "published_per_s"], ["acknowledged", "acknowledged_per_s"]] },
    { title: "Failures by kind", unit: "in the interval", lines: [["connect", "connect_failures"], ["subscribe", "subscribe_failures"], ["publish", "publish_failures"]] },
    { title: "Deliveries owed and not yet come", unit: "messages", lines: [["outstanding", "outstanding"], ["duplicated", "duplicated"], ["reordered", "reordered"]], messages: true },
    { title: "Success rate of deliveries so far", unit: "%, from 95", lines: [["success", "success_percent"]], min: 95, max: 100.2, messages: true },
    { title: "Connections", unit: "open", lines: [["connections", "connections"], ["subscribers", "subscribers"], ["publishers", "publishers"]] },
    { title: "Bytes", unit: "bytes/s", lines: [["to the broker", "bytes_out_per_s"], ["from the broker", "bytes_in_per_s"]] },
    { title: "Broker CPU", unit: "cores", lines: [["user", "broker_cpu_user_cores"], ["system", "broker_cpu_system_cores"]], local: true },
    { title: "Memory of the broker", unit: "MB", scale: 1e-6, lines: [["resident", "broker_rss_bytes"]], local: true },
    { title: "Memory of the host in use", unit: "MB", scale: 1e-6, lines: [["host", "host_used_bytes"]] },
    { title: "The load generator: lag", unit: "ms, log", log: true, scale: 1e-3, lines: [["lag p99", "generator_lag_p99_us"], ["lag max", "generator_lag_max_us"]], messages: true },
    { title: "The load generator: CPU", unit: "cores", lines: [["CPU", "generator_cpu_cores"]] },
  ];

  const bands = (run) => ({
    hooks: {
      drawClear: [(u) => {
        const { ctx } = u;
        ctx.save();
        ctx.font = "11px system-ui";
        run.phases.forEach((phase, at) => {
          const x0 = u.valToPos(phase.start_s, "x", true), x1 = u.valToPos(phase.end_s, "x", true);
          if (at % 2 === 0) { ctx.fillStyle = css("--band"); ctx.fillRect(x0, u.bbox.top, x1 - x0, u.bbox.height); }
          if (x1 - x0 > 48) { ctx.fillStyle = css("--soft"); ctx.fillText(phase.name, x0 + 4, u.bbox.top + 12); }
        });
        ctx.restore();
      }],
    },
  });

  const axes = (unit, log) => [
    { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, values: (u, v) => v.map((x) => si(x) + " s") },
    { stroke: css("--soft"), size: 58, grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, values: (u, v) => v.map((x) => x == null || (log && !/^1/.test(String(x).replace(/[0.]/g, ""))) ? "" : si(x)) },
  ];

  const draw = (box, use, spec) => {
    const runs = use.runs.filter((run) => !spec.local || run.local);
    if (!runs.length || (spec.messages && !use.has_messages)) return;
    // All runs on one time axis: the union of their times, gaps where a run has no row.
    const series = [{ label: "time", value: (u, v) => (v == null ? "-" : v.toFixed(1) + " s") }];
    const tables = [];
    runs.forEach((run, r) => spec.lines.forEach(([name, column], l) => {
      const values = run.columns[column].map((v) => {
        const scaled = v * (spec.scale || 1);
        return spec.log && scaled <= 0 ? null : scaled;
      });
      if (spec.log && values.every((v) => v == null)) return;
      tables.push([run.columns.t_s, values]);
      series.push({
        label: runs.length > 1 ? run.label + " " + name : name,
        stroke: colour(runs.length, r, l),
        dash: runs.length > 1 ? DASHES[r % DASHES.length] : [],
        width: 1.8, spanGaps: true, points: { show: run.columns.t_s.length < 3 },
        value: (u, v) => si(v),
      });
    }));
    if (!tables.length) return;
    const card = document.createElement("div");
    card.className = "chart";
    card.innerHTML = "<h4></h4>";
    card.firstChild.textContent = spec.title + " (" + spec.unit + ")";
    box.append(card);
    const range = spec.log ? undefined : (u, min, max) => [spec.min ?? 0, spec.max ?? Math.max(max * 1.08, 1e-3)];
    const plot = new uPlot({
      width: card.clientWidth - 24, height: 230, series, axes: axes(spec.unit, spec.log),
      cursor: { sync: { key: use.name } }, plugins: [bands(runs[0])],
      scales: { x: { time: false }, y: { distr: spec.log ? 3 : 1, range } },
    }, uPlot.join(tables), card);
    new ResizeObserver(() => plot.setSize({ width: card.clientWidth - 24, height: 230 })).observe(card);
  };

  // Latency by percentile: the x axis is 1 / (1 - quantile), so every nine has the same room.
  const drawQuantiles = (box, use) => {
    const runs = use.runs.filter((run) => run.quantiles.length);
    if (!runs.length) return;
    const card = document.createElement("div");
    card.className = "chart";
    card.innerHTML = "<h4></h4>";
    card.firstChild.textContent = (use.has_messages ? "End-to-end" : "Connect") + " latency by percentile (ms, log)";
    box.append(card);
    const nines = { 1: "0 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10000: "99.99 %", 100000: "99.999 %" };
    const tables = runs.map((run) => [run.quantiles.map((q) => q[0]), run.quantiles.map((q) => Math.max(q[1] / 1e3, 1e-3))]);
    const spec = axes("ms", true);
    spec[0].values = (u, v) => v.map((x) => nines[x] || "");
    const plot = new uPlot({
      width: card.clientWidth - 24, height: 230, axes: spec,
      series: [{ label: "percentile", value: (u, v) => (v == null ? "-" : (100 * (1 - 1 / v)).toFixed(3) + " %") }]
        .concat(runs.map((run, r) => ({ label: run.label, stroke: HUES[r % HUES.length][0], dash: DASHES[r % DASHES.length], width: 1.8, spanGaps: true, points: { show: false }, value: (u, v) => si(v) }))),
      scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
    }, uPlot.join(tables), card);
    new ResizeObserver(() => plot.setSize({ width: card.clientWidth - 24, height: 230 })).observe(card);
  };

  const all = () => uses.forEach((use, at) => {
    const box = document.getElementById("charts-" + at);
    box.replaceChildren();
    drawQuantiles(box, use);
    CHARTS.forEach((spec) => draw(box, use, spec));
  });
  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
