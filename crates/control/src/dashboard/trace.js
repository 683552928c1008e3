// Traces: one more, what they have, the end of one.

import { ask, isAdmin, query } from "./api.js";
import { forAdmins, link, number, short, table, text } from "./shown.js";

const LINES_MAX = 200, WAIT_S = 2;
const KNOWN = ["seq", "at", "direction", "client_id", "user", "address", "packet", "bytes"];

const say = (words, kind = "soft") => { id("trace-state").className = kind; id("trace-state").textContent = words; };

export async function showTraces(wanted, isCurrent) {
  forAdmins([id("trace-start")], id("trace-help"), "It has what clients send: only an admin may see one.");
  for (const name of ["trace-list", "trace-lines"]) fill(id(name), []);
  if (!isAdmin()) return;
  await list(isCurrent);
  if (wanted.id && isCurrent()) await follow(wanted.id, isCurrent);
}

async function list(isCurrent) {
  const { traces } = await ask("traces");
  if (!isCurrent()) return;
  fill(id("trace-list"), traces.length ? [table("Traces there are", [text("of"), short("state"), number("packets"), number("missing"), short("end")], traces.map((of) => {
    const end = make("button", "End");
    end.type = "button";
    end.onclick = () => ask("traces/" + of.id, { method: "DELETE" }).then(() => { location.hash = "#trace"; dispatchEvent(new HashChangeEvent("hashchange")); }, (problem) => say(problem.message, "bad"));
    return [link(`${of.kind} ${of.name}`, "#trace" + query({ id: of.id })), of.ended ? `ended by ${of.ended}` : `for ${count(Math.max(0, of.for_s - of.age_s))} s more`, count(of.events), count(of.dropped), end];
  }))] : [make("p", "No trace goes on.", "soft")]);
}

// What a packet has besides what every line has.
const rest = (line) => {
  const fields = Object.entries(line).filter(([name]) => !KNOWN.includes(name));
  return fields.length ? fields.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ") : "-";
};

async function follow(trace, isCurrent) {
  let lines = [], after = 0;
  while (isCurrent()) {
    const came = await ask(`traces/${trace}/events` + query({ after, wait_s: WAIT_S }), { isText: true });
    if (!isCurrent()) return;
    const more = came.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (more.length || !lines.length) {
      lines = [...more.reverse(), ...lines].slice(0, LINES_MAX);
      after = lines[0]?.seq ?? after;
      fill(id("trace-lines"), lines.length ? [table("Packets, the newest first", [short("when"), short("way"), short("packet"), text("client"), text("what it has"), number("bytes")],
        lines.map((line) => [line.at.slice(11, 23), line.direction, line.packet, line.client_id ?? "-", rest(line), count(line.bytes)]))] : [make("p", "Nothing has come yet.", "soft")]);
    }
    await list(isCurrent);
    if (!more.length && (await ask("traces/" + trace)).ended) return;
  }
}

id("trace-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!isAdmin()) return;
  const wanted = { kind: id("trace-kind").value, name: id("trace-name").value, for_s: id("trace-seconds").value };
  try {
    const { id: number } = await ask("traces" + query(wanted), { method: "POST" });
    say(`The trace of the ${wanted.kind} ${wanted.name} goes on.`, "good");
    location.hash = "#trace" + query({ id: number });
  } catch (problem) {
    say(problem.message, "bad");
  }
});
