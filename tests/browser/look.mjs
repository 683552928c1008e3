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
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { evaluate, inChromium, until } from "./chromium.mjs";
import { VIEWS, inspect, picture, screen, watch } from "./sound.mjs";
import Ajv from "ajv/dist/2020.js";

const DRAW_MS = 60_000;

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
  await screen(client, view);
  const loaded = client.Page.loadEventFired();
  await client.Page.navigate({ url: pathToFileURL(resolve(page)).href });
  await loaded;
  const isDrawn = () => evaluate(client, "document.documentElement.dataset.drawn === 'yes' || !document.getElementById('data')");
  await until(isDrawn, DRAW_MS, "the last chart");
  await inspect(client, view, fault);
  seen.charts = await evaluate(client, "document.querySelectorAll('.uplot').length");
  seen.heatMaps = await evaluate(client, "document.querySelectorAll('canvas.heat').length");
  if (options.pictures) await picture(client, view, options.pictures, view.name);
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

try {
  await inChromium(options.browser, [], async (client) => {
    const url = pathToFileURL(resolve(page)).href;
    await watch(client, faults, (asked) => asked === url);
    for (const view of VIEWS) await look(client, view);
    if (await evaluate(client, "!!document.getElementById('data')")) await saved(client);
    if (options.values) seen.values = await values(client);
    if (options.sheets) await printed(client);
  });
} catch (error) {
  faults.push("look: " + error.message);
}
console.log(JSON.stringify({ faults, ...seen }, null, 2));
