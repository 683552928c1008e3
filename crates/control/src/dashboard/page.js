// The dashboard of a broker: who looks, which view is there, and the one clock that reads counters.
// Text from outside is only ever set as text.

import { ask, keepToken, token, visitor } from "./api.js";
import * as bans from "./bans.js";
import * as clients from "./clients.js";
import * as cluster from "./cluster.js";
import * as config from "./config.js";
import * as drain from "./drain.js";
import * as listeners from "./listeners.js";
import * as losses from "./losses.js";
import * as messages from "./messages.js";
import * as overview from "./overview.js";
import * as top from "./top.js";
import * as trace from "./trace.js";
import * as users from "./users.js";
import * as websocket from "./websocket.js";

const READ_EVERY_MS = 2_000, HIDDEN_EVERY_MS = 10_000;

const VIEWS = {
  overview: async () => overview.show(),
  clients: clients.showList,
  client: clients.showOne,
  retained: messages.showRetained,
  publish: async (wanted) => messages.showForm(wanted),
  websocket: websocket.show,
  drops: losses.showDrops,
  why: losses.showWhy,
  slow: losses.showSlow,
  top: top.showTop,
  bans: bans.showBans,
  users: users.showUsers,
  trace: trace.showTraces,
  listeners: listeners.showListeners,
  cluster: cluster.showCluster,
  drain: drain.showDrain,
  config: config.showConfig,
};

let shown = null, turn = 0, isReading = false, lostAt = null, isOwed = false;

function route() {
  const [name, text] = location.hash.slice(1).split("?");
  const wanted = Object.fromEntries(new URLSearchParams(text ?? ""));
  const isThere = Object.hasOwn(VIEWS, name) && (name !== "client" || wanted.id);
  const view = visitor.role === null ? "login" : isThere ? name : "overview";
  const mine = ++turn;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view;
  for (const link of document.querySelectorAll("#views a")) {
    const isHere = link.hash === "#" + (view === "client" ? "clients" : view);
    if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const heading = document.querySelector(`#${view} h1`);
  document.title = `${view === "client" ? wanted.id : heading.textContent} - Weir broker`;
  shown = { view, wanted, isCurrent: () => mine === turn };
  const wasOwed = isOwed;
  isOwed = false;
  if (view === "login") return id("token").focus();
  VIEWS[view](wanted, shown.isCurrent).then(() => wasOwed && trouble(null), (problem) => {
    if (mine !== turn) return;
    // What the broker will not do does not change; what it could not do just now is shown later.
    if (isPassing(problem)) trouble(problem);
    else document.querySelector(`#${view} [role=status]`).textContent = problem.message;
    isOwed = isPassing(problem);
  });
}

const isPassing = ({ status }) => status === 0 || status === 429 || status >= 500;

// What keeps the page from showing how things are; nothing if they are shown.
function trouble(problem) {
  const place = id("trouble");
  if (problem?.status === 401) return;
  if (problem && lostAt === null) lostAt = new Date();
  if (!problem) lostAt = null;
  const text = problem ? `${problem.message} This page has been trying again since ${clock(lostAt / 1000)}.` : "";
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !problem;
  const link = problem ? (problem.status === 0 ? "out of reach" : "waits") : "live";
  if (id("link").textContent !== link) id("link").textContent = link;
}

async function read() {
  if (isReading || visitor.role === null) return;
  isReading = true;
  try {
    if (overview.take(await ask("counters"), Date.now() / 1000)) overview.takeAbout(await ask("broker"));
    if (shown.view === "overview") overview.show();
    if (shown.view === "cluster") await cluster.showState(shown.isCurrent);
    if (shown.view === "drain") await drain.showState(shown.isCurrent);
    if (shown.view === "client") await clients.showFacts(shown.wanted, shown.isCurrent);
    if (isOwed) route();
    else trouble(null);
  } catch (problem) {
    trouble(problem);
  }
  isReading = false;
}

function tick() {
  setTimeout(async () => {
    await (visitor.role === null && token() ? enter() : read());
    tick();
  }, document.hidden ? HIDDEN_EVERY_MS : READ_EVERY_MS);
}

async function enter() {
  const say = id("login-trouble");
  try {
    const known = await ask("token"), history = await ask("history"), about = await ask("broker");
    await cluster.look();
    overview.forget();
    overview.takeAbout(about);
    overview.takeHistory(history, Date.now() / 1000);
    Object.assign(visitor, known);
    say.hidden = true;
  } catch (problem) {
    // Without an answer the token may be a good one: it stays, and is tried again.
    say.textContent = problem.status === 401 ? "The broker does not know this token." : problem.message + " This page tries again.";
    say.hidden = false;
    return shown ?? route();
  }
  id("token").value = "";
  id("whose").textContent = `${visitor.name ?? "socket"}, ${visitor.role}`;
  for (const name of ["views", "who"]) id(name).hidden = false;
  route();
  await read();
}

function leave() {
  keepToken(null);
  Object.assign(visitor, { name: null, role: null });
  overview.forget();
  websocket.leave();
  config.leave();
  for (const box of document.querySelectorAll("dialog")) box.close();
  for (const name of ["views", "who", "trouble"]) id(name).hidden = true;
  id("link").textContent = "";
  lostAt = null;
  route();
}

id("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(id("token").value.trim());
  enter();
});
id("leave").addEventListener("click", () => { id("login-trouble").hidden = true; leave(); });
addEventListener("weir-unknown", () => {
  if (visitor.role === null) return keepToken(null);
  leave();
  id("login-trouble").textContent = "The broker does not know this tab's token any more.";
  id("login-trouble").hidden = false;
});
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => { if (!document.hidden) read(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", overview.repaint);
if (token()) enter(); else route();
tick();
