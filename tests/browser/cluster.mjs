// Uses the page of the cluster of a dashboard in Chromium as a person does:
//
//   node cluster.mjs URL --admin TOKEN --viewer TOKEN [--pictures FOLDER] [--browser PROGRAM]
//
// The broker is the node "a" of a cluster. A node "b" is a member, and "c" is away: its copy was opened by "a". All logs are copied. Prints one JSON object: "faults" is empty where all is well, and "seen" is what was read off the page.

import { parseArgs } from "node:util";
import { evaluate } from "./chromium.mjs";
import { onScreens, visit } from "./person.mjs";

const { values: options, positionals: [url] } = parseArgs({
  allowPositionals: true,
  options: { admin: { type: "string" }, viewer: { type: "string" }, pictures: { type: "string" }, browser: { type: "string", default: "chromium" } },
});
const faults = [], seen = {};

const use = async (client, me) => {
  await me.logIn(options.viewer);
  await me.click("#views a", "Cluster");
  await me.until("[...document.querySelectorAll('#cluster-nodes td')].some((of) => of.textContent.startsWith('up, '))", "the other node");
  await me.until("document.querySelector('#cluster-facts').textContent.includes('whole')", "a whole copy");
  await me.until("document.querySelector('#cluster-nodes').textContent.includes('void')", "a copy that was opened");
  seen.name = await me.read("#cluster-name");
  seen.facts = await me.read("#cluster-facts");
  seen.nodes = await me.read("#cluster-nodes");
  seen.links = await me.read("#cluster-links");
  seen.viewer = await evaluate(client, "document.querySelector('#cluster-away button').disabled");
  await onScreens(client, "cluster", faults, options.pictures);
  // New figures do not take the focus away.
  await evaluate(client, "document.querySelector('[aria-label=Nodes]').focus(); window.seenRow = document.querySelector('[aria-label=Nodes] tr')");
  await me.until("!window.seenRow.isConnected", "new figures");
  seen.focus = await evaluate(client, "document.activeElement.ariaLabel");

  await me.click("#leave");
  await me.logIn(options.admin);
  // Those of the viewer are still, and stand there until the admin's do.
  await me.click("#cluster-away button:enabled", "Forget c");
  await me.click("#sure-yes");
  await me.come("#cluster-said.good");
  seen.forgotten = await me.read("#cluster-said");
  await me.until("document.querySelectorAll('#cluster-nodes tbody tr').length === 2", "the nodes that are left");
};

await visit("cluster", url, options, { faults, seen }, use);
