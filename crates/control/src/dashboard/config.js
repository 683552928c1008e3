// The configuration: what runs, what a change of it takes, and another text for its file.

import { ask, isAdmin, query } from "./api.js";
import { forAdmins, isSure, short, table, text } from "./shown.js";

const FORBIDDEN = "This broker's configuration cannot be changed over the network: may_write_config = true in [control] allows it. weir ctl config --put FILE changes it on its host.";

const say = (words, kind = "soft") => { id("config-said").className = kind; id("config-said").textContent = words; };
const takes = (isLive) => make("span", isLive ? "live" : "restart", isLive ? "good" : "doubt");

let mayWrite = false;

export async function showConfig(_wanted, isCurrent) {
  say("");
  fill(id("config-changes"), []);
  id("config-form").hidden = true;
  const { sections, may_write } = await ask("config/sections"), runs = await ask("config", { isText: true });
  if (!isCurrent()) return;
  mayWrite = may_write && isAdmin();
  id("config-text").textContent = runs;
  fill(id("config-sections"), [table("What a change takes", [short("key"), short("takes"), text("how, or why")], sections.map((of) => [of.key, takes(of.is_live), of.how.replaceAll("`", "")]))]);
  forAdmins([id("config-try"), id("config-put")], id("config-help"), may_write ? "A secret is shown as ***, and stays as it is where you leave that." : FORBIDDEN);
  if (!isAdmin()) return;
  // What is being edited stays, until it is read anew.
  if (!id("config-file").value) await read(isCurrent);
  if (!isCurrent()) return;
  for (const name of ["config-try", "config-put"]) id(name).disabled = !mayWrite;
  id("config-file").readOnly = !mayWrite;
  id("config-form").hidden = false;
}

async function read(isCurrent = () => true) {
  try {
    const file = await ask("config" + query({ file: true }), { isText: true });
    if (isCurrent()) id("config-file").value = file;
  } catch (problem) {
    say(problem.message, "bad");
  }
}

async function put(isDryRun) {
  fill(id("config-changes"), []);
  say("looking");
  try {
    const { changes } = await ask("config" + query({ dry_run: isDryRun }), { method: "PUT", body: id("config-file").value });
    const restarts = changes.filter((of) => !of.is_live).length;
    fill(id("config-changes"), changes.length ? [table(isDryRun ? "What would change" : "What has changed", [short("takes"), short("key"), text("was"), text("is then")],
      changes.map((of) => [takes(of.is_live), of.key, of.from ?? "-", of.to ?? "-"]))] : []);
    const wait = restarts ? ` ${restarts} of them wait${restarts === 1 ? "s" : ""} for a restart.` : "";
    say(!changes.length ? "Nothing changes." : isDryRun ? `${changes.length} would change.${wait} Nothing has changed yet.` : `It is in the file, and the broker goes by it.${wait}`, isDryRun ? "soft" : "good");
    return true;
  } catch (problem) {
    say(problem.message, "bad");
    const [, line] = problem.message.match(/:(\d+): /) ?? [];
    if (line) select(Number(line));
    return false;
  }
}

// The line that is wrong, so that it can be seen and changed.
function select(line) {
  const of = id("config-file"), lines = of.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  of.focus();
  of.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  of.scrollTop = of.scrollHeight * Math.max(0, line - 4) / lines.length;
}

/** What is edited is nobody's who comes later. */
export const leave = () => { id("config-file").value = ""; };

id("config-try").addEventListener("click", () => put(true));
id("config-again").addEventListener("click", () => { fill(id("config-changes"), []); say(""); read(); });
id("config-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!mayWrite || !await put(true)) return;
  if (!await isSure("Change the configuration?", "This text takes the place of the file, and the broker goes by what is live.", "Change it")) return;
  if (await put(false)) id("config-text").textContent = await ask("config", { isText: true });
});
