// Opens a page of weir in Chromium, as a desktop, a phone and in the dark, and says what is wrong:
// errors of its scripts, requests to anywhere, what axe finds, a page wider than its screen, a table
// that is cut, more sheets of paper than allowed. With a folder it keeps pictures and the PDF.
//
//   node look.mjs PAGE.html [--pictures FOLDER] [--schema SCHEMA.json] [--sheets N] [--values]
//     [--browser PROGRAM]
//
// Prints one JSON object; its "faults" is empty where all is well.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { evaluate, inChromium, until } from "./chromium.mjs";
import Ajv from "ajv/dist/2020.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const DRAW_MS = 60_000;

const VIEWS = [
  { name: "desktop", width: 1280, height: 900, scheme: "light" },
  { name: "phone", width: 390, height: 844, scheme: "light", mobile: true },
  { name: "narrow", width: 360, height: 780, scheme: "light", mobile: true },
  { name: "dark", width: 1280, height: 900, scheme: "dark" },
];

const { values: options, positionals: [page] } = parseArgs({
  allowPositionals: true,
  options: {
    pictures: { type: "string" },
    schema: { type: "string" },
    sheets: { type: "string" },
    values: { type: "boolean" },
    browser: { type: "string", default: "chromium" },
  },
});
if (!page) {
  console.error("look: name a page");
  process.exit(2);
}

const faults = [];
const seen = { charts: 0, heatMaps: 0, saved: 0 };

const look = async (client, view) => {
  const fault = (what) => faults.push(view.name + ": " + what);
  await client.Emulation.setDeviceMetricsOverride({ width: view.width, height: view.height, deviceScaleFactor: view.mobile ? 2 : 1, mobile: !!view.mobile });
  await client.Emulation.setEmulatedMedia({ features: [{ name: "prefers-color-scheme", value: view.scheme }] });
  const loaded = client.Page.loadEventFired();
  await client.Page.navigate({ url: pathToFileURL(resolve(page)).href });
  await loaded;
  const isDrawn = () => evaluate(client, "document.documentElement.dataset.drawn === 'yes' || !document.getElementById('data')");
  await until(isDrawn, DRAW_MS, "the last chart");
  const width = await evaluate(client, "document.documentElement.scrollWidth");
  if (width > view.width) {
    const wide = await evaluate(client, `[...document.querySelectorAll("body *")].filter((of) => of.getBoundingClientRect().right > ${view.width + 1}
      && !of.closest(".scroll, .legend, pre")).slice(0, 3).map((of) => of.tagName + "." + of.className).join(", ")`);
    fault("the page is " + width + " px wide on a screen of " + view.width + ": " + wide);
  }
  const cut = await evaluate(client, `[...document.querySelectorAll(".scroll, .legend, th")].filter((of) => !of.closest(".behind, thead")
    && of.clientWidth > 0 && of.scrollWidth > of.clientWidth + 1).slice(0, 3).map((of) => (of.getAttribute("aria-label") || of.textContent.slice(0, 60)) + " (" + of.scrollWidth + " in " + of.clientWidth + " px)")`);
  cut.forEach((of) => fault("cut: " + of));
  // A word on two lines: in the cell of a table that is a figure whose end nobody finds.
  const broken = await evaluate(client, `[...document.querySelectorAll("td, .bar b")].filter((of) => of.offsetParent && of.closest(".behind") === null).flatMap((of) => [...of.childNodes].filter((node) => node.nodeType === 3 && /^\\s*\\S+\\s*$/.test(node.data)))
    .filter((node) => { const range = document.createRange(); range.selectNodeContents(node); return new Set([...range.getClientRects()].map((at) => Math.round(at.top))).size > 1; }).slice(0, 3).map((node) => node.data.trim())`);
  broken.forEach((of) => fault("broken: " + of));
  await evaluate(client, AXE + "; 0");
  const axe = await evaluate(client, "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)), count: v.nodes.length })))");
  for (const found of axe) {
    fault("axe, " + found.impact + ", " + found.id + ": " + found.help + " (" + found.count + "): " + found.nodes.join(" | "));
  }
  seen.charts = await evaluate(client, "document.querySelectorAll('.uplot').length");
  seen.heatMaps = await evaluate(client, "document.querySelectorAll('canvas.heat').length");
  if (options.pictures) {
    const shot = await client.Page.captureScreenshot({ format: "png" });
    writeFileSync(join(options.pictures, view.name + ".png"), Buffer.from(shot.data, "base64"));
    const height = Math.min(await evaluate(client, "document.documentElement.scrollHeight"), 9000);
    const whole = await client.Page.captureScreenshot({ format: "png", captureBeyondViewport: true, clip: { x: 0, y: 0, width: view.width, height, scale: 1 } });
    writeFileSync(join(options.pictures, view.name + "-whole.png"), Buffer.from(whole.data, "base64"));
  }
};

// The last value of each line of each chart, by "title: line", as the table behind the chart has it.
const values = (client) => evaluate(client, `(async () => {
  const all = {};
  for (const card of document.querySelectorAll(".chart")) {
    const behind = card.querySelector("details.behind");
    if (!behind) continue;
    behind.open = true;
    await new Promise((done) => setTimeout(done));
    const heads = [...behind.querySelectorAll("thead th")].slice(1), cells = [...behind.querySelectorAll("tbody tr:last-child td")];
    heads.forEach((head, at) => { all[card.querySelector("h4").textContent + ": " + (head.textContent.split(", ")[1] ?? "")] = cells[at].textContent; });
  }
  return all;
})()`);

// The sheets of paper the page takes.
const printed = async (client) => {
  await client.Emulation.setEmulatedMedia({ features: [{ name: "prefers-color-scheme", value: "dark" }] });
  const { data } = await client.Page.printToPDF({ printBackground: false, preferCSSPageSize: true });
  const pdf = Buffer.from(data, "base64");
  seen.sheets = pdf.toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g)?.length ?? 0;
  if (options.pictures) writeFileSync(join(options.pictures, "page.pdf"), pdf);
  if (seen.sheets > Number(options.sheets)) faults.push("paper: " + seen.sheets + " sheets, not " + options.sheets);
};

// What the page's buttons save, read again: each result must be of the schema.
const saved = async (client) => {
  const raw = await evaluate(client, `Promise.all((JSON.parse(document.getElementById("data").textContent).raw ?? []).filter((of) => of.gzip).map(async (of) => {
    const bytes = Uint8Array.from(atob(of.gzip), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }))`);
  seen.saved = raw.length;
  if (!options.schema) return;
  const ajv = new Ajv({ strict: false, validateFormats: false });
  const validate = ajv.compile(JSON.parse(readFileSync(options.schema, "utf8")));
  raw.forEach((text, at) => {
    if (!validate(JSON.parse(text))) faults.push("result " + at + " is not of its schema: " + ajv.errorsText(validate.errors));
  });
};

const watch = async ({ Page, Runtime, Log, Network }) => {
  await Promise.all([Page.enable(), Runtime.enable(), Log.enable(), Network.enable()]);
  Runtime.exceptionThrown(({ exceptionDetails }) => faults.push("script: " + (exceptionDetails.exception?.description || exceptionDetails.text)));
  Runtime.consoleAPICalled(({ type, args }) => {
    if (["error", "warning", "assert"].includes(type)) faults.push("console: " + args.map((arg) => arg.value ?? arg.description).join(" "));
  });
  Log.entryAdded(({ entry }) => {
    if (["error", "warning"].includes(entry.level)) faults.push("log: " + entry.text);
  });
  Network.requestWillBeSent(({ request }) => {
    const isOwn = /^(data|blob):/.test(request.url) || request.url === pathToFileURL(resolve(page)).href;
    if (!isOwn && request.url !== "about:blank") faults.push("request: " + request.url.slice(0, 200));
  });
};

try {
  await inChromium(options.browser, [], async (client) => {
    await watch(client);
    for (const view of VIEWS) await look(client, view);
    if (await evaluate(client, "!!document.getElementById('data')")) await saved(client);
    if (options.values) seen.values = await values(client);
    if (options.sheets) await printed(client);
  });
} catch (error) {
  faults.push("look: " + error.message);
}
console.log(JSON.stringify({ faults, ...seen }, null, 2));
