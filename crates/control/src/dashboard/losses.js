// What did not arrive: drops by reason, client and topic; why; and who takes too little.

import { ask, query } from "./api.js";
import { link, number, short, table, text } from "./shown.js";

const DROPS = 500, LISTED = 100, SLOW_PAGES = 20, SLOW = 50;
const KINDS = {
  dropped: "message", publish_refused: "publish refused", filter_refused: "filter refused", connection_refused: "connection refused",
  connection_ended: "connection ended", session_ended: "session ended",
};
const ARRIVES = { yes: "good", later: "doubt", depends: "doubt", no: "bad" };

const why = (of) => of.client_id && of.topic && of.kind === "dropped" ? link("why?", "#why" + query({ client: of.client_id, topic: of.topic })) : "";
const pageOf = (clientId) => "#client" + query({ id: clientId });
const client = (of) => of.client_id ? link(of.client_id, pageOf(of.client_id)) : "-";

/** Drops, the newest first. */
export const dropTable = (title, drops) => table(title, [short("when"), short("what"), text("client"), text("topic"), text("reason"), number("times"), short("ask")],
  drops.map((of) => [when(of.at), KINDS[of.kind] ?? of.kind, client(of), of.topic || "-", of.detail ? `${of.reason} (${of.detail})` : of.reason, count(of.times), why(of)]));

const when = (at) => clock(Date.parse(at) / 1000);

export async function showDrops(wanted, isCurrent) {
  id("drop-client").value = wanted.client ?? "";
  id("drop-topic").value = wanted.topic ?? "";
  id("drop-kind").value = wanted.kind ?? "";
  for (const name of ["drop-reasons", "drop-list"]) fill(id(name), []);
  id("dropped").textContent = "looking";
  const { client: of, topic, kind } = wanted, { drops } = await ask("drops" + query({ client: of, topic, kind, limit: DROPS }));
  if (!isCurrent()) return;
  id("dropped").textContent = drops.length ? `${drops.length === 1 ? "One" : `The last ${drops.length}`}, as far as the broker keeps them; the same in a row count as one.` : "Nothing lately.";
  if (!drops.length) return;
  const reasons = new Map();
  for (const drop of drops) {
    const key = KINDS[drop.kind] + ": " + drop.reason, so = reasons.get(key) ?? { times: 0, clients: new Set(), topics: new Set() };
    so.times += drop.times;
    so.clients.add(drop.client_id);
    so.topics.add(drop.topic);
    reasons.set(key, so);
  }
  const byTimes = [...reasons].sort(([, one], [, other]) => other.times - one.times);
  fill(id("drop-reasons"), [table("By reason", [text("what and why"), number("times"), number("clients"), number("topics")],
    byTimes.map(([key, so]) => [key, count(so.times), count(so.clients.size), count(so.topics.size)]))]);
  fill(id("drop-list"), [dropTable("Lately", drops.slice(0, LISTED))]);
}

export async function showWhy(wanted, isCurrent) {
  id("why-client").value = wanted.client ?? "";
  id("why-topic").value = wanted.topic ?? "";
  const say = id("why-answer");
  say.className = "";
  say.textContent = wanted.client && wanted.topic ? "looking" : "";
  fill(id("why-findings"), []);
  id("why-who").hidden = !wanted.client;
  id("why-who").href = pageOf(wanted.client);
  id("why-who").textContent = `The client ${wanted.client}`;
  if (!say.textContent) return;
  const answer = await ask("why" + query({ client: wanted.client, topic: wanted.topic }));
  if (!isCurrent()) return;
  say.className = ARRIVES[answer.arrives];
  say.textContent = answer.conclusion;
  fill(id("why-findings"), answer.findings.map((finding) => make("li", finding)));
}

export async function showSlow(_wanted, isCurrent) {
  const say = id("slow-state");
  say.textContent = "looking";
  fill(id("slow-list"), []);
  let slow = [], cursor = null, page = 0;
  do {
    const list = await ask("clients" + query({ waiting: 1, limit: 1000, cursor }));
    if (!isCurrent()) return;
    slow = [...slow, ...list.clients].sort((one, other) => other.queued_messages - one.queued_messages).slice(0, SLOW);
    cursor = list.cursor;
    say.textContent = `looking, ${slow.length} so far`;
  } while (cursor !== null && ++page < SLOW_PAGES);
  say.textContent = slow.length ? `${slow.length === 1 ? "The only one" : `The ${slow.length} with the longest queues`}${cursor === null ? "" : "; there are more clients to look at"}.` : "For nobody.";
  if (slow.length) fill(id("slow-list"), [table("The longest queues", [text("client"), short("state"), number("queued"), number("bytes"), number("in flight")],
    slow.map((of) => [client(of), of.connection ? "connected" : "absent", count(of.queued_messages), bytes(of.queued_bytes), count(of.in_flight)]))]);
}

const go = (event, to) => {
  event.preventDefault();
  if (location.hash === to) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = to;
};
id("drop-form").addEventListener("submit", (event) => go(event, "#drops" + query({ client: id("drop-client").value, topic: id("drop-topic").value, kind: id("drop-kind").value })));
id("why-form").addEventListener("submit", (event) => go(event, "#why" + query({ client: id("why-client").value, topic: id("why-topic").value })));
