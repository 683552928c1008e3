// The list of clients, and one of them.

import { ask, isAdmin, part, query } from "./api.js";
import { dropTable } from "./losses.js";
import { forAdmins, isSure, link, number, pages, table, text, tile } from "./shown.js";

const LIMIT = 50, DROPS = 10;
const LOSS = "its subscriptions and its queue are lost";
const href = (id) => "#client" + query({ id });

// How many subscriptions the client had when they were listed.
let listed = null;

/** The list that `wanted` asks for. */
export async function showList(wanted, isCurrent) {
  id("find-id").value = wanted.id ?? "";
  id("find-user").value = wanted.user ?? "";
  id("find-state").value = wanted.state ?? "";
  id("found").textContent = "looking";
  fill(id("client-list"), []);
  fill(id("client-pages"), []);
  const { clients, cursor } = await ask("clients" + query({ ...wanted, limit: LIMIT }));
  if (!isCurrent()) return;
  const none = cursor === null ? "There is no such client." : "None so far; there are more clients to look at.";
  id("found").textContent = clients.length ? `${clients.length} client${clients.length === 1 ? "" : "s"}${wanted.cursor || cursor !== null ? " on this page" : ""}` : none;
  fill(id("client-list"), clients.length ? [table("Clients found", [text("client"), text("user"), text("MQTT"), number("keep alive"), number("subscriptions"), number("queued"), number("in flight")],
    clients.map((of) => [link(of.client_id, href(of.client_id)), of.user ?? "-", of.connection?.version ?? "absent", of.connection ? of.connection.keep_alive_s + " s" : "-",
      count(of.subscriptions), count(of.queued_messages), count(of.in_flight)]))] : []);
  pages(id("client-pages"), "clients", wanted, cursor, clients.length ? "Next page" : "Look further");
}

id("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = { id: id("find-id").value, user: id("find-user").value, state: id("find-state").value };
  const to = "#clients" + query(wanted);
  if (location.hash === to) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = to;
});

const expiry = (seconds) => seconds === null ? "never" : seconds === 0 ? "at once" : seconds + " s";

/** What can change of a client while it is looked at. */
export async function showFacts(wanted, isCurrent) {
  const of = await ask("clients/" + part(wanted.id)).catch((problem) => {
    if (problem.status !== 404) throw problem;
    return null;
  });
  if (!isCurrent()) return;
  const say = id("client-state"), state = of === null ? "There is no such client any more." : of.connection ? "connected" : "absent; its session is kept";
  if (say.textContent !== state) say.textContent = state;
  say.className = of?.connection ? "good" : "soft";
  id("kick").hidden = !of?.connection;
  id("end").hidden = of === null;
  id("client-rights").hidden = !of?.user || !isAdmin();
  if (of?.user) {
    id("client-rights").href = "#users" + query({ name: of.user });
    id("client-rights").textContent = `Rights of ${of.user}`;
  }
  fill(id("client-facts"), of === null ? [] : [
    tile("user", of.user ?? "-"), tile("MQTT", of.connection?.version ?? "-"), tile("keep alive", of.connection ? of.connection.keep_alive_s + " s" : "-"),
    tile("session expiry", expiry(of.session_expiry_s)), tile("subscriptions", count(of.subscriptions)),
    tile("queued", count(of.queued_messages), bytes(of.queued_bytes)), tile("in flight", count(of.in_flight)),
  ]);
  if (of?.subscriptions !== listed) {
    listed = of?.subscriptions;
    await showSubscriptions(wanted, isCurrent);
  }
}

/** One client. */
export async function showOne(wanted, isCurrent) {
  id("h-client").textContent = wanted.id;
  id("client-why").href = "#why" + query({ client: wanted.id });
  id("client-rights").hidden = true;
  forAdmins([id("kick"), id("end")], id("kick-help"), "A client whose connection ends may come back. If its session ends, " + LOSS + ".");
  id("kick").onclick = () => act("End the connection?", `${wanted.id} may come back, and finds its session if that outlives the connection.`, "End the connection", "clients/", wanted, isCurrent);
  id("end").onclick = () => act("End the session?", `${wanted.id} is disconnected, and ${LOSS}.`, "End the session", "sessions/", wanted, isCurrent);
  for (const name of ["client-facts", "client-trouble", "subscriptions", "subscription-pages"]) fill(id(name), []);
  id("client-state").textContent = "looking";
  fill(id("client-drops"), []);
  listed = null;
  await showFacts(wanted, isCurrent);
  const { drops } = await ask("drops" + query({ client: wanted.id, limit: DROPS }));
  if (isCurrent()) fill(id("client-drops"), drops.length ? [dropTable("Dropped and refused lately", drops)] : [make("p", "nothing lately", "soft")]);
}

async function showSubscriptions(wanted, isCurrent) {
  const page = await ask(`clients/${part(wanted.id)}/subscriptions` + query({ limit: LIMIT, cursor: wanted.cursor })).catch((problem) => {
    if (problem.status !== 404) throw problem;
    return { subscriptions: [], cursor: null };
  });
  if (!isCurrent()) return;
  const options = (of) => [of.no_local && "no local", of.retain_as_published && "retain as published", of.subscription_id !== null && `identifier ${of.subscription_id}`].filter(Boolean).join(", ") || "-";
  fill(id("subscriptions"), page.subscriptions.length ? [table("Subscriptions", [text("filter"), number("QoS"), text("condition"), text("options")],
    page.subscriptions.map((of) => [of.filter, String(of.qos), of.condition ?? "-", options(of)]))] : [make("p", "none", "soft")]);
  pages(id("subscription-pages"), "client", wanted, page.cursor, "Next page");
}

async function act(what, why, yes, path, wanted, isCurrent) {
  if (!await isSure(what, why, yes)) return;
  const trouble = await ask(path + part(wanted.id), { method: "DELETE" }).then(() => null, (problem) => problem);
  if (!isCurrent()) return;
  await showOne(wanted, isCurrent).catch(() => {});
  id("client-trouble").textContent = trouble?.message ?? "";
}
