// Whether a page of weir is sound on a screen: requests and errors of its scripts, its width, tables
// that are cut, what axe finds.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRequire } from "node:module";
import { evaluate } from "./chromium.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const VIEWS = [
  { name: "desktop", width: 1280, height: 900, scheme: "light" },
  { name: "phone", width: 390, height: 844, scheme: "light", mobile: true },
  { name: "narrow", width: 360, height: 780, scheme: "light", mobile: true },
  { name: "dark", width: 1280, height: 900, scheme: "dark" },
];

// Collects errors of the page's scripts, and requests to anywhere that is not its own.
export const watch = async ({ Page, Runtime, Log, Network }, faults, isOwn, isExpected = () => false) => {
  await Promise.all([Page.enable(), Runtime.enable(), Log.enable(), Network.enable()]);
  Runtime.exceptionThrown(({ exceptionDetails }) => faults.push("script: " + (exceptionDetails.exception?.description || exceptionDetails.text)));
  Runtime.consoleAPICalled(({ type, args }) => {
    if (["error", "warning", "assert"].includes(type)) faults.push("console: " + args.map((arg) => arg.value ?? arg.description).join(" "));
  });
  Log.entryAdded(({ entry }) => {
    if (["error", "warning"].includes(entry.level) && !isExpected(entry)) faults.push("log: " + entry.text + " " + (entry.url ?? ""));
  });
  Network.requestWillBeSent(({ request }) => {
    const isData = /^(data|blob):/.test(request.url);
    if (!isData && !isOwn(request.url) && request.url !== "about:blank") faults.push("request: " + request.url.slice(0, 200));
  });
};

export const screen = async (client, view) => {
  await client.Emulation.setDeviceMetricsOverride({ width: view.width, height: view.height, deviceScaleFactor: view.mobile ? 2 : 1, mobile: !!view.mobile });
  await client.Emulation.setEmulatedMedia({ features: [{ name: "prefers-color-scheme", value: view.scheme }] });
};

// Tells `fault` what is wrong with the page as it is shown now.
export const inspect = async (client, view, fault) => {
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
};

// Keeps what is on the screen, and the whole page.
export const picture = async (client, view, folder, name) => {
  const shot = await client.Page.captureScreenshot({ format: "png" });
  writeFileSync(join(folder, name + ".png"), Buffer.from(shot.data, "base64"));
  const height = Math.min(await evaluate(client, "document.documentElement.scrollHeight"), 9000);
  const whole = await client.Page.captureScreenshot({ format: "png", captureBeyondViewport: true, clip: { x: 0, y: 0, width: view.width, height, scale: 1 } });
  writeFileSync(join(folder, name + "-whole.png"), Buffer.from(whole.data, "base64"));
};
