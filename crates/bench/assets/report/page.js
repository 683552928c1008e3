// The page's script: what is shown, what is said to a screen reader, what can be saved.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
// Ends of what is drawn, called before it is drawn anew.
const drawn = [];
// Colours of brokers that are not shown, and whether all repeats are or one run of each broker.
const hidden = new Set();
let isAll = false;

const shown = (use) => use.runs.filter((run) => !hidden.has(run.colour) && (isAll || run.typical));

const element = (tag, parent, text, className) => {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
};

// What a chart shows, in a sentence for each of its lines.
const SPOKEN_MAX = 12;
const spoken = (spec, runs, lines) => {
  const say = lines.slice(0, SPOKEN_MAX).map((line) => {
    const values = line.table[1].filter((v) => v != null && Number.isFinite(v));
    const name = [line.run.label, line.name].filter(Boolean).join(" ");
    if (!values.length) return name + ": no values";
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    return name + ": " + line.text(low) + " to " + line.text(high) + ", last " + line.text(values.at(-1));
  });
  const more = lines.length > SPOKEN_MAX ? "; and " + (lines.length - SPOKEN_MAX) + " lines more" : "";
  return "Chart: " + spec.title + ", " + spec.sub + ". " + say.join("; ") + more + ". The values are in the table below it.";
};

// The values behind a chart as a table, made when it is asked for: at most so many rows a run.
const ROWS_MAX = 60;
const behind = (card, spec, runs, lines, stampOf) => {
  const details = element("details", card, "", "behind");
  element("summary", details, "Values as a table").setAttribute("aria-label", "Values as a table: " + spec.title);
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const region = element("div", details, "", "scroll");
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", spec.title + ", values");
    const table = element("table", region), caption = element("caption", table, spec.title + ", " + spec.sub);
    const head = element("tr", element("thead", table));
    ["at", ...lines.map((line) => [line.run.label, line.name].filter(Boolean).join(", "))]
      .forEach((name) => { element("th", head, name).scope = "col"; });
    const stamps = [...new Set(lines.flatMap((line) => line.table[0]))].sort((a, b) => a - b);
    const step = Math.ceil(stamps.length / ROWS_MAX);
    if (step > 1) caption.textContent += "; one row of " + step;
    const body = element("tbody", table);
    const values = lines.map((line) => new Map(line.table[0].map((at, i) => [at, line.table[1][i]])));
    stamps.filter((_, i) => i % step === 0).forEach((at) => {
      const row = element("tr", body);
      element("th", row, stampOf(at)).scope = "row";
      lines.forEach((line, l) => {
        const value = values[l].get(at);
        element("td", row, value == null ? "–" : line.text(value));
      });
    });
  });
};

// Saves a text or bytes under a name: a link to a blob that lives for a moment.
const save = (name, parts, type) => {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = element("a", document.body);
  link.href = url;
  link.download = name;
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};

const bytesOf = (raw) => Uint8Array.from(atob(raw.gzip), (char) => char.charCodeAt(0));

// The text of a result as it was kept; browsers unpack gzip by themselves.
const resultOf = async (raw) => {
  const stream = new Blob([bytesOf(raw)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
};

const cell = (value) => {
  const text = String(value);
  return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};

const seriesOf = (result) => {
  const names = Object.keys(result.series[0] || {});
  return [names, ...result.series.map((row) => names.map((name) => row[name]))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
};

const saveAs = async (raw, what) => {
  if (what === "gzip" || typeof DecompressionStream === "undefined") {
    return save(raw.file + ".json.gz", [bytesOf(raw)], "application/gzip");
  }
  const text = await resultOf(raw);
  if (what === "json") return save(raw.file + ".json", [text], "application/json");
  save(raw.file + ".csv", [seriesOf(JSON.parse(text))], "text/csv");
};

document.querySelectorAll("[data-save]").forEach((button) => {
  const raw = data.raw[Number(button.dataset.run)];
  if (!raw || !raw.gzip) {
    button.replaceWith("too large for this page: see the run's folder");
    return;
  }
  button.hidden = false;
  button.onclick = () => saveAs(raw, button.dataset.save);
});
const saveAll = document.getElementById("save-all");
if (saveAll) {
  saveAll.hidden = false;
  saveAll.onclick = async () => {
    const texts = await Promise.all(data.raw.filter((raw) => raw.gzip).map(resultOf));
    save("weir-results.json", ["[", texts.join(","), "]\n"], "application/json");
  };
}

// Charts are drawn one after the other while the browser has nothing else to do; all at once before
// the page is printed.
let queue = [], isWaiting = false;
const whenIdle = window.requestIdleCallback || ((what) => setTimeout(() => what({ timeRemaining: () => 8 }), 16));
const drawSome = (deadline) => {
  isWaiting = false;
  do queue.shift()?.(); while (queue.length && deadline.timeRemaining() > 4);
  wait();
};
const wait = () => {
  if (queue.length === 0) document.documentElement.dataset.drawn = "yes";
  else if (!isWaiting) { isWaiting = true; whenIdle(drawSome, { timeout: 500 }); }
};
const drawRest = () => { while (queue.length) queue.shift()(); wait(); };

const drawAll = () => {
  delete document.documentElement.dataset.drawn;
  drawn.splice(0).forEach((end) => end());
  queue = [];
  data.uses.forEach((use, at) => {
    const box = document.getElementById("charts-" + at);
    box.style.minHeight = box.offsetHeight + "px";
    box.replaceChildren();
    for (const [name, specs] of SECTIONS) {
      const head = element("h3", box, name), last = element("span", box);
      last.hidden = true;
      // What is drawn later keeps its place before the end of its section.
      const place = { append: (made) => last.before(made), get isEmpty() { return last.previousElementSibling === head; } };
      specs.forEach((spec) => queue.push(() => {
        if (spec.quantiles) drawQuantiles(place, use);
        else if (spec.heat) drawHeat(place, use);
        else drawTimes(place, use, spec);
      }));
      queue.push(() => { if (place.isEmpty) head.remove(); last.remove(); });
    }
    queue.push(() => { box.style.minHeight = ""; });
  });
  wait();
};

document.querySelectorAll("[data-broker]").forEach((button) => {
  button.onclick = () => {
    const colour = Number(button.dataset.broker);
    if (!hidden.delete(colour)) hidden.add(colour);
    button.setAttribute("aria-pressed", String(!hidden.has(colour)));
    drawAll();
  };
});
const repeats = document.getElementById("repeats");
if (repeats) repeats.onchange = () => { isAll = repeats.checked; drawAll(); };
const controls = document.getElementById("controls");
if (controls) controls.hidden = false;

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

// Paper has its own widths and is always light: the charts are drawn for it and then anew.
const isPaper = () => document.documentElement.classList.contains("paper");
addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); drawAll(); drawRest(); });
addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); drawAll(); });
