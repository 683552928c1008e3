// Draws the curves of cost by rate from the data the page carries: a line a stack, both axes log.
"use strict";

const groups = JSON.parse(document.getElementById("data").textContent);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = (v) => {
  if (v == null) return "-";
  const [by, unit] = v >= 1e6 ? [1e6, "M"] : v >= 1e4 ? [1e3, "k"] : [1, ""];
  return +(v / by).toPrecision(3) + unit;
};
// Eight colours; stacks beyond share them with other strokes.
const STROKES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const ends = (values) => {
  const known = values.flat().filter((v) => v > 0);
  return [Math.min(...known) / 1.4, Math.max(...known) * 1.4];
};
const decades = (min, max) => {
  const found = [];
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++)
    for (const m of Math.log10(max / min) > 2.5 ? [1] : [1, 2, 5]) found.push(+(m * 10 ** e).toPrecision(3));
  return found.filter((v) => v >= min && v <= max);
};
const HEIGHT = 360;
let plots = [];

const draw = () => {
  plots.forEach((plot) => plot.destroy());
  plots = [...document.querySelectorAll(".curves")].map((place) => {
    const group = groups[+place.dataset.group];
    const axis = (label) => ({
      label, stroke: css("--soft"), font: "11px system-ui", labelFont: "12px system-ui",
      grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false },
      splits: (u, at, min, max) => decades(min, max), filter: (u, list) => list, values: (u, list) => list.map(short),
    });
    const [xs, ys] = [ends(group.rates), ends(group.lines.map((line) => line.values))];
    return new uPlot({
      width: place.clientWidth, height: HEIGHT,
      scales: { x: { time: false, distr: 3, range: () => xs }, y: { distr: 3, range: () => ys } },
      axes: [axis(group.unit + "s per second"), axis("CPU us a " + group.unit)],
      series: [{ label: "rate", value: (u, v) => short(v) }, ...group.lines.map((line) => ({
        label: line.name, stroke: css("--c" + (line.colour % 8)), width: 1.8,
        dash: STROKES[Math.floor(line.colour / 8) % STROKES.length],
        spanGaps: true, points: { show: true, size: 6 }, value: (u, v) => short(v),
      }))],
    }, [group.rates, ...group.lines.map((line) => line.values)], place);
  });
};
draw();
// For who waits for the last chart.
document.documentElement.dataset.drawn = "yes";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let timer;
addEventListener("resize", () => {
  clearTimeout(timer);
  timer = setTimeout(draw, 200);
});
