// Sends clients to another server, and says how far that is.

import { ask, isAdmin, query } from "./api.js";
import { forAdmins, isSure, tile } from "./shown.js";

const say = (words, kind = "soft") => { id("drain-said").className = kind; id("drain-said").textContent = words; };

export async function showDrain(_wanted, isCurrent) {
  forAdmins([id("drain-begin"), id("drain-end")], id("drain-help"), "New clients are refused at once. Sessions and their queues stay here, and /readyz says 503.");
  say("");
  await showState(isCurrent);
}

/** How far it is now. */
export async function showState(isCurrent) {
  const state = await ask("drain");
  if (isCurrent()) show(state);
}

function show({ draining, ended, connections }) {
  const words = draining ? "Clients are sent away, and none is let in." : "Clients are let in.";
  if (id("drain-state").textContent !== words) id("drain-state").textContent = words;
  id("drain-end").disabled = !draining || !isAdmin();
  id("drain-begin").textContent = draining ? "Go on like this" : "Send clients away";
  fill(id("drain-facts"), [tile("draining", draining ? "yes" : "no", "", draining ? "doubt" : "good"),
    tile("clients left", count(connections)), ...draining ? [tile("sent away", count(ended))] : []]);
}

async function order(method, values, done) {
  try {
    show(await ask("drain" + query(values), { method }));
    say(done, "good");
  } catch (problem) {
    say(problem.message, "bad");
  }
}

id("drain-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!isAdmin()) return;
  const server = id("drain-server").value, rate = id("drain-rate").value, moved = id("drain-moved").checked;
  const where = server ? `are told to use ${server}` : "are told no other server";
  if (!await isSure("Send all clients away?", `${rate} of them in a second, and whoever comes meanwhile, ${where}.`, "Send away")) return;
  await order("POST", { server, rate, moved: moved || null }, "It goes on, also if this page is closed.");
});
id("drain-end").addEventListener("click", () => order("DELETE", {}, "Clients are let in again."));
