"use strict";
// What the pages of weir share: elements, numbers as a person reads them, charts by uPlot. A plain
// script, so that a page of one file can have it, too: its names are global.
// Text from outside is only ever set as text.

const id = (name) => document.getElementById(name);
const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const fill = (element, children) => element.replaceChildren(...children);

// Numbers as a person reads them.
const count = (n) => n >= 1e6 ? (n / 1e6).toFixed(2) + "M" : n >= 1e4 ? (n / 1e3).toFixed(1) + "k" : String(Math.round(n));
const time = (us) => us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1e4 ? (us / 1e3).toFixed(0) + " ms"
  : us >= 1e3 ? (us / 1e3).toFixed(1) + " ms" : Math.round(us) + " µs";
const bytes = (b) => b >= 1e9 ? (b / 1e9).toFixed(2) + " GB" : b >= 1e6 ? (b / 1e6).toFixed(1) + " MB"
  : b >= 1e3 ? (b / 1e3).toFixed(1) + " kB" : Math.round(b) + " B";
const or = (value, text) => value === null || value === undefined ? "-" : text(value);

const colour = (at) => getComputedStyle(document.documentElement).getPropertyValue(`--${at}`).trim();

// Distances between the lines of a grid: none so small that two of its labels read the same.
const steps = (least) => Array.from({ length: 45 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3) * least);

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: "h23" });

// One chart: `lines` are names, `data` columns with the seconds first, which are those of a run, or of
// the clock if the chart says `clock`.
function draw(place, chart, names, data, marks, bands) {
  const box = make("div", undefined, "chart"), plot = make("div");
  const legend = make("ul", undefined, "legend");
  const values = names.map((name, at) => {
    const item = make("li"), sign = make("i"), value = make("b");
    sign.style.borderColor = `var(--c${at % 6})`;
    item.append(sign, name + " ", value);
    legend.append(item);
    return value;
  });
  box.append(make("h2", chart.title), legend, plot);
  place.append(box);
  const axis = { stroke: () => colour("soft"), grid: { stroke: () => colour("grid") }, ticks: { stroke: () => colour("grid") }, font: "11px system-ui" };
  const decorate = (u) => {
    const context = u.ctx, { left, top, width, height } = u.bbox;
    context.save();
    context.font = "11px system-ui"; context.textAlign = "left"; context.fillStyle = context.strokeStyle = colour("soft"); context.setLineDash([3, 3]);
    // Words that would lie upon each other stand in rows.
    const ends = [];
    for (const [at, text] of [...bands(), ...marks()].sort(([one], [other]) => one - other)) {
      const x = u.valToPos(at, "x", true);
      if (!(x >= left && x <= left + width)) continue;
      context.beginPath(); context.moveTo(x, top); context.lineTo(x, top + height); context.stroke();
      let row = ends.findIndex((end) => end < x);
      if (row < 0) row = ends.length;
      if (row > 3) continue;
      ends[row] = x + 8 + context.measureText(text).width;
      context.fillText(text, x + 4, top + 12 + 12 * row);
    }
    context.restore();
  };
  const u = new uPlot({
    width: 400, height: 190, legend: { show: false }, cursor: { y: false, sync: { key: "all" } },
    scales: { x: { time: !!chart.clock }, y: chart.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low || 0), (high || 1) * 1.05] } },
    axes: [{ ...axis, size: 32, ...(chart.clock ? { space: 70 } : {}), values: (_, all) => all.map((second) => chart.clock ? clock(second) : second + " s") },
      { ...axis, size: 74, ...(chart.log ? {} : { incrs: steps(chart.least ?? 1) }), values: (_, all) => all.map((value) => value === null ? "" : chart.text(value)) }],
    series: [{}, ...names.map((name, at) => ({ label: name, stroke: () => colour(`c${at % 6}`), width: 1.6, points: { show: false }, spanGaps: !chart.clock }))],
    hooks: { drawAxes: [decorate], setCursor: [(u) => sayAt(u.data, u.cursor.idx)] },
  }, data, plot);
  plot.setAttribute("role", "img");
  // What is under the pointer, or the last.
  function sayAt(columns, at) {
    values.forEach((value, line) => { value.textContent = or(columns[line + 1].at(at ?? -1), chart.text); });
  }
  const say = (columns) => {
    const last = names.map((_, at) => columns[at + 1].at(-1));
    sayAt(columns, u.cursor.idx);
    plot.setAttribute("aria-label", chart.title + ": " + names.map((name, at) => `${name} ${or(last[at], chart.text)}`).join(", "));
  };
  say(data);
  new ResizeObserver(([entry]) => u.setSize({ width: Math.max(180, entry.contentRect.width), height: 190 })).observe(plot);
  return { set: (columns) => { u.setData(columns); say(columns); }, redraw: () => u.redraw() };
}
