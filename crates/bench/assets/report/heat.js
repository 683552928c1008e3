// Latency over time in full: a map for each run, darker where more messages took that long. All maps
// of a use case have the same axes.

const HEAT_HEIGHT = 190, HEAT_LEFT = 58, HEAT_FOOT = 24;

const drawHeat = (box, use) => {
  const runs = shown(use).filter((run) => run.heat);
  if (!runs.length) return;
  const first = Math.min(...runs.map((run) => run.heat.first));
  const last = Math.max(...runs.map((run) => run.heat.first + run.heat.rows));
  const end = Math.max(...runs.map((run) => run.heat.columns.at(-1)[0]));
  runs.forEach((run) => drawMap(box, use, run, { first, last, end }));
};

const drawMap = (box, use, run, { first, last, end }) => {
  const heat = run.heat, perDecade = heat.rows_a_decade;
  const card = element("div", box, "", "chart minor");
  element("h4", card, "Where the time went: " + run.label);
  element("p", card, "every " + (use.has_messages ? "message" : "connect") + " by its time and its latency; darker is more, the scale of counts is logarithmic");
  const canvas = element("canvas", card, "", "heat");
  canvas.setAttribute("role", "img");
  const ms = (row) => 10 ** (row / perDecade) / 1000;
  const high = heat.columns.map((column) => (column.length > 2 ? column[1] + column.length - 2 : null)).filter((row) => row != null);
  canvas.setAttribute("aria-label", "Heat map of latency over time, " + run.label + ": from " + short(ms(heat.first)) + " ms to "
    + short(ms(heat.first + heat.rows)) + " ms; the slowest of an interval between " + short(ms(Math.min(...high))) + " and " + short(ms(Math.max(...high)))
    + " ms. Its values are in the chart of end-to-end latency, as a table.");
  const most = Math.max(...heat.columns.map((column) => column.slice(2).reduce((a, b) => Math.max(a, b), 0)));
  const paint = () => {
    const width = card.clientWidth - 24, px = devicePixelRatio || 1;
    canvas.width = width * px;
    canvas.height = HEAT_HEIGHT * px;
    canvas.style.height = HEAT_HEIGHT + "px";
    const ctx = canvas.getContext("2d");
    ctx.scale(px, px);
    const plotWidth = width - HEAT_LEFT - 14, plotHeight = HEAT_HEIGHT - HEAT_FOOT - 8;
    const x = (s) => HEAT_LEFT + (s / end) * plotWidth;
    const y = (row) => 8 + (1 - (row - first) / (last - first)) * plotHeight;
    ctx.fillStyle = css("--band");
    run.phases.filter((phase) => phase.name === "measure").forEach((phase) => {
      ctx.fillRect(x(phase.start_s), 8, x(Math.min(phase.end_s, end)) - x(phase.start_s), plotHeight);
    });
    ctx.fillStyle = colour(run.colour);
    let before = 0;
    heat.columns.forEach(([at, from, ...counts]) => {
      counts.forEach((count, i) => {
        if (!count) return;
        ctx.globalAlpha = 0.12 + 0.88 * (Math.log1p(count) / Math.log1p(most));
        const top = y(from + i + 1);
        ctx.fillRect(x(before), top, Math.max(x(at) - x(before), 1), y(from + i) - top);
      });
      before = at;
    });
    ctx.globalAlpha = 1;
    ctx.font = "11px system-ui";
    ctx.fillStyle = css("--soft");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (let decade = Math.ceil(first / perDecade); decade * perDecade <= last; decade++) {
      ctx.fillText(short(ms(decade * perDecade)) + " ms", HEAT_LEFT - 6, y(decade * perDecade));
      ctx.fillRect(HEAT_LEFT - 3, y(decade * perDecade), 3, 1);
    }
    ctx.textAlign = "center";
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    const step = steps.find((of) => (of / end) * plotWidth >= 60) || steps.at(-1);
    for (let s = 0; s <= end; s += step) ctx.fillText(clock(s), x(s), HEAT_HEIGHT - 10);
    ctx.textAlign = "left";
    const words = rows(4);
    run.marks.forEach((mark) => {
      ctx.fillStyle = css("--doubt");
      ctx.fillRect(x(mark.t_s), 8, 1, plotHeight);
      const length = ctx.measureText(mark.label).width + 4;
      const begin = Math.min(x(mark.t_s) + 4, width - length);
      const row = words(begin, begin + length);
      if (row != null) ctx.fillText(mark.label, begin, 16 + 13 * row);
    });
  };
  paint();
  let width = card.clientWidth;
  const observer = new ResizeObserver(() => {
    if (card.clientWidth === width) return;
    width = card.clientWidth;
    paint();
  });
  observer.observe(card);
  drawn.push(() => observer.disconnect());
};
