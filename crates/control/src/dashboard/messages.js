// Retained messages, and a form to publish.

import { ask, isAdmin, part, query } from "./api.js";
import { forAdmins, isSure, number, pages, table, text } from "./shown.js";

const LIMIT = 50, SHOWN_BYTES_MAX = 64 * 1024, LINE_BYTES = 16;

/** The list that `wanted` asks for. */
export async function showRetained(wanted, isCurrent) {
  id("filter").value = wanted.filter ?? "";
  id("sifted").textContent = "looking";
  fill(id("retained-list"), []);
  fill(id("retained-pages"), []);
  const { messages, cursor } = await ask("retained" + query({ ...wanted, limit: LIMIT }));
  if (!isCurrent()) return;
  id("sifted").textContent = said({ messages, cursor }, wanted);
  fill(id("retained-list"), messages.length ? [table("Messages found", [text("topic"), number("QoS"), number("bytes")], messages.map((of) => {
    const open = make("button", of.topic, "plain");
    open.type = "button";
    open.onclick = () => showMessage(of.topic);
    return [open, String(of.qos), count(of.payload_bytes)];
  }))] : []);
  pages(id("retained-pages"), "retained", wanted, cursor, "Next page");
}

const said = ({ messages, cursor }, wanted) => messages.length
  ? `${messages.length} message${messages.length === 1 ? "" : "s"}${wanted.cursor || cursor !== null ? " on this page" : ""}; choose one to see its payload`
  : "Nothing is retained here.";

id("sift").addEventListener("submit", (event) => {
  event.preventDefault();
  const to = "#retained" + query({ filter: id("filter").value });
  if (location.hash === to) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = to;
});

// A payload as text; bytes that are none as hexadecimal digits, beside what of them is ASCII.
function shown({ payload, payload_encoding }) {
  if (payload_encoding === "plain") {
    try {
      const json = JSON.parse(payload);
      return json !== null && typeof json === "object" ? JSON.stringify(json, null, 2) : payload;
    } catch { return payload; }
  }
  const all = atob(payload), lines = [];
  for (let at = 0; at < Math.min(all.length, SHOWN_BYTES_MAX / 4); at += LINE_BYTES) {
    const line = all.slice(at, at + LINE_BYTES), digits = [...line].map((char) => char.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
    lines.push(at.toString(16).padStart(6, "0") + "  " + digits.padEnd(3 * LINE_BYTES) + " " + line.replace(/[^\x20-\x7e]/g, "."));
  }
  return lines.join("\n");
}

async function showMessage(topic) {
  const box = id("message"), trouble = id("message-trouble");
  const tell = (problem) => { trouble.textContent = problem?.message ?? ""; trouble.hidden = !problem; };
  tell();
  id("h-message").textContent = topic;
  id("message-about").textContent = "looking";
  id("message-payload").textContent = "";
  id("message-again").href = "#publish" + query({ topic });
  forAdmins([id("clear")], id("clear-help"), "Subscribers get an empty message then, as if a client had cleared the topic.");
  id("clear").onclick = async () => {
    if (!await isSure("Clear the topic?", `Nobody gets the message that is retained for ${topic} any more.`, "Clear")) return;
    const problem = await ask("retained/" + part(topic), { method: "DELETE" }).then(() => null, (problem) => problem);
    if (problem) return tell(problem);
    box.close();
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  if (!box.open) box.showModal();
  try {
    const of = await ask("retained/" + part(topic));
    const all = shown(of), cut = all.slice(0, SHOWN_BYTES_MAX);
    id("message-about").textContent = `QoS ${of.qos}, ${of.payload_bytes} bytes` + (of.payload_encoding === "plain" ? "" : ", no text") + (cut.length < all.length ? "; the begin of it" : "");
    id("message-payload").textContent = cut;
  } catch (problem) {
    id("message-about").textContent = "";
    tell(problem);
  }
}
id("message-close").onclick = () => id("message").close();
id("message-again").onclick = () => id("message").close();

/** The form, for the topic that `wanted` has. */
export function showForm(wanted) {
  if (wanted.topic) id("topic").value = wanted.topic;
  forAdmins([id("send")], id("publish-help"), "Subscribers get it as they get any client's message.");
}

id("publish-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!isAdmin()) return;
  const say = id("published"), topic = id("topic").value;
  const body = { topic, payload: id("payload").value, payload_encoding: id("encoding").value, qos: Number(id("qos").value), retain: id("retain").checked };
  say.textContent = "";
  try {
    await ask("publish", { method: "POST", body });
    say.className = "good";
    say.textContent = `Published to ${topic} at ${clock(Date.now() / 1000)}.`;
  } catch (problem) {
    say.className = "bad";
    say.textContent = problem.message;
  }
});
