// Bans: the list of them, one more, one less.

import { ask, isAdmin, query } from "./api.js";
import { forAdmins, isSure, pages, short, table, text } from "./shown.js";

const LIMIT = 50;
const BY = { ctl: "an administrator", file: "the file of bans", guesses: "wrong passwords", flapping: "connecting too often" };

export async function showBans(wanted, isCurrent) {
  forAdmins([id("ban-add")], id("ban-help"), "Whoever is connected is disconnected.");
  for (const name of ["ban-list", "ban-pages"]) fill(id(name), []);
  const { bans, cursor } = await ask("bans" + query({ limit: LIMIT, cursor: wanted.cursor }));
  if (!isCurrent()) return;
  fill(id("ban-list"), bans.length ? [table("Bans in force", [text("who"), short("until"), text("by"), text("reason"), short("change")], bans.map((of) => {
    const back = make("button", "Take back");
    back.type = "button";
    back.disabled = !isAdmin() || of.by === "file";
    back.onclick = () => remove(of);
    return [`${of.kind} ${of.name}`, of.until ? new Date(of.until).toLocaleString() : "for ever", BY[of.by] ?? of.by, of.reason ?? "-", back];
  }))] : [make("p", "Nobody is banned.", "soft")]);
  pages(id("ban-pages"), "bans", wanted, cursor, "Next page");
}

function say(text, kind) {
  id("ban-state").className = kind;
  id("ban-state").textContent = text;
  dispatchEvent(new HashChangeEvent("hashchange"));
}

async function remove({ kind, name }) {
  if (!await isSure("Take the ban back?", `${kind} ${name} may come in again.`, "Take it back")) return;
  await ask("bans" + query({ kind, name }), { method: "DELETE" }).then(() => say(`${kind} ${name} may come in again.`, "good"), (problem) => say(problem.message, "bad"));
}

id("ban-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!isAdmin()) return;
  const kind = id("ban-kind").value, name = id("ban-name").value, minutes = Number(id("ban-minutes").value);
  if (!await isSure(`Ban the ${kind} ${name}?`, minutes ? `For ${minutes} min nobody comes in who is meant.` : "For ever nobody comes in who is meant.", "Ban")) return;
  const wanted = { kind, name, for_s: minutes ? minutes * 60 : null, reason: id("ban-reason").value };
  try {
    const { ended, not_kept } = await ask("bans" + query(wanted), { method: "POST" });
    id("ban-form").reset();
    say(`${kind} ${name} is banned; ${ended} connection${ended === 1 ? "" : "s"} ended.` + (not_kept ? ` A restart forgets it: ${not_kept}` : ""), not_kept ? "doubt" : "good");
  } catch (problem) {
    say(problem.message, "bad");
  }
});
