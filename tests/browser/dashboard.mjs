// Uses the dashboard of a broker in Chromium as a person does, by clicks and keys alone:
//
//   node dashboard.mjs URL --admin TOKEN --viewer TOKEN --websocket URL [--pictures FOLDER] [--browser PROGRAM]
//
// The broker has a client "meter-7" with a subscription to plant/7/+, and a client "lamp-1" with one to plant/lamp whose
// user "lamp" may not read that; it retains "plant/temperature", and has more clients than a page lists. Prints one JSON object: "faults" is empty where all is well, and "seen" is what was read off the page.

import { parseArgs } from "node:util";
import { evaluate } from "./chromium.mjs";
import { COME_MS, onScreens, settle, visit } from "./person.mjs";

const { values: options, positionals: [url] } = parseArgs({
  allowPositionals: true,
  options: { admin: { type: "string" }, viewer: { type: "string" }, websocket: { type: "string" }, pictures: { type: "string" }, browser: { type: "string", default: "chromium" } },
});
const faults = [], seen = {};
let isBroken = false;

// While `use` runs, the broker answers what is asked of it for `path` so: nothing with status 0.
const answering = async (client, path, responseCode, use) => {
  isBroken = true;
  await client.Fetch.enable({ patterns: [{ urlPattern: url + "api/v1/" + path }] });
  const off = client.Fetch.requestPaused(({ requestId }) => responseCode === 0
    ? client.Fetch.failRequest({ requestId, errorReason: "ConnectionRefused" })
    : client.Fetch.fulfillRequest({ requestId, responseCode, body: Buffer.from('{"error":"made up"}').toString("base64") }));
  await use();
  off();
  await client.Fetch.disable();
};

// What is shown now, on every screen.
const everywhere = (client, name) => onScreens(client, name, faults, options.pictures);

// What was sent to whom is absent: one message is dropped, and one waits.
const losses = async (client, me) => {
  for (const qos of ["0", "1"]) await me.publish("plant/7/level", "3", qos);
  await me.click("#views a", "Drops");
  await me.come("#drop-list tbody a", "meter-7");
  await me.choose("#drop-kind", "messages");
  await me.write("#drop-topic", "plant/7/#");
  await me.enter();
  await me.until("document.querySelectorAll('#drop-list tbody tr').length === 1", "one drop");
  await everywhere(client, "drops");
  await me.click("#drop-list a", "why?");
  await me.come("#why-answer.doubt");
  seen.absent = await me.read("#why-answer");
  await me.click("#views a", "Slow");
  await me.come("#slow-list a", "meter-7");
  await everywhere(client, "slow");
};

// A client gets nothing. Why? Its rights. They are changed, and it gets the next message.
const mend = async (client, me) => {
  await me.publish("plant/lamp", "before", "1");
  await me.find("lamp-1");
  await me.come("#client-state", "connected");
  await me.come("#client-rights");
  seen.lost = await me.read("#client-drops tbody");
  await everywhere(client, "client-forbidden");
  await me.click("#client-drops a", "why?");
  await me.come("#why-answer.bad");
  seen.forbidden = await me.read("#why-answer");
  await everywhere(client, "why");
  await me.click("#why-who");
  await me.click("#client-rights", "Rights of lamp");
  await me.permit("lamp", "topic read plant/lamp");
  await everywhere(client, "rights");
  await me.find("lamp-1");
  await me.click("#client-why");
  await me.write("#why-topic", "plant/lamp");
  await me.enter();
  await me.come("#why-answer.good");
  seen.permitted = await me.read("#why-answer");
  await everywhere(client, "why-mended");
  await me.publish("plant/lamp", "after", "1");
};

// Two clients talk while somebody counts: the page itself is none of them.
const top = async (client, me) => {
  await me.click("#views a", "Top");
  await me.come("#top-list a", "talker");
  await evaluate(client, "document.querySelector('#top-list [role=region]').focus(); window.seenRow = document.querySelector('#top-list tr')");
  await me.until("!window.seenRow.isConnected", "another count");
  seen.topFocus = await evaluate(client, "document.activeElement.ariaLabel");
  seen.top = await me.read("#top-list tbody");
  await me.choose("#top-by", "bytes");
  await me.until("location.hash.includes('by=bytes')", "the order");
  await me.come("#top-list a", "talker");
  await everywhere(client, "top");
};

const bans = async (client, me) => {
  await me.click("#views a", "Bans");
  await me.come("#ban-list p");
  await me.choose("#ban-kind", "client");
  await me.write("#ban-name", "scanner");
  await me.write("#ban-minutes", "5");
  await me.click("#ban-add");
  await me.click("#sure-yes");
  await me.come("#ban-list th", "client scanner");
  await everywhere(client, "bans");
  await me.click("#ban-list button", "Take back");
  await me.click("#sure-yes");
  await me.come("#ban-list p", "Nobody is banned.");
};

const overWebSocket = async (client, me) => {
  await me.click("#views a", "WebSocket");
  // That of the broker's listener is there by itself.
  await me.until("id('ws-url').value !== ''", "an address");
  await me.write("#ws-url", options.websocket);
  await me.write("#ws-user", "bob");
  await me.write("#ws-password", "a long one");
  await me.click("#ws-open");
  await me.come("#ws-state.good");
  await me.write("#ws-filter", "plant/ws");
  await me.enter();
  await me.come("#ws-said.good");
  seen.subscribed = await me.read("#ws-said");
  await me.choose("#ws-qos", "1");
  await me.write("#ws-topic", "plant/ws");
  await me.write("#ws-payload", "over WebSocket");
  await me.enter();
  await me.come("#ws-list td", "over WebSocket");
  seen.came = await me.read("#ws-list tbody");
  await everywhere(client, "websocket");
};

// A user is added who may do something: the page itself comes in as that user, until the user is taken out.
const users = async (client, me) => {
  await me.click("#views a", "Users");
  await me.write("#user-name", "bob");
  await me.write("#user-password", "a long one");
  await me.enter();
  await me.come("#user-list a", "bob");
  seen.added = await me.read("#user-state");
  await me.click("#user-list a", "bob");
  await me.permit("bob", "topic readwrite plant/ws");
  await everywhere(client, "users");
  await overWebSocket(client, me);
  await me.click("#views a", "Users");
  await me.click("#user-list a", "bob");
  await me.come("#h-rights", "Rights of bob");
  await me.click("#user-remove");
  await me.click("#sure-yes");
  await me.come("#user-state", "bob is no user any more.");
  await me.click("#views a", "WebSocket");
  await me.come("#ws-state.bad");
  seen.left = await me.read("#ws-state");
};

// The packets that come while somebody looks elsewhere are there when they are back.
const traces = async (client, me) => {
  await me.click("#views a", "Trace");
  await me.choose("#trace-kind", "topic filter");
  await me.write("#trace-name", "plant/#");
  await me.enter();
  await me.come("#trace-list a", "topic plant/#");
  await me.publish("plant/command", "shut", "1");
  await me.click("#views a", "Trace");
  await me.click("#trace-list a", "topic plant/#");
  await me.come("#trace-lines td", "PUBLISH");
  seen.traced = await me.read("#trace-lines tbody");
  await everywhere(client, "trace");
  await me.click("#trace-list button", "End");
  await me.come("#trace-list p", "No trace goes on.");
};

// What cannot be used is shown with its line, and what can is tried before it is put.
const config = async (client, me) => {
  await me.click("#views a", "Config");
  await me.until("id('config-file').value !== ''", "the file");
  seen.secrets = await evaluate(client, "[id('config-file').value.includes('***'), id('config-text').textContent.includes('shards')]");
  const edit = async (from, to) => {
    await evaluate(client, `(() => { const of = id("config-file"), at = of.value.indexOf(${JSON.stringify(from)}); of.focus(); of.setSelectionRange(at, at + ${from.length}); })()`);
    await client.Input.insertText({ text: to });
  };
  await edit("shards = 2", "shards = 3\nlatency_budget_ms = 5000");
  await me.click("#config-try");
  await me.come("#config-said.bad");
  seen.wrong = await me.read("#config-said");
  seen.line = await evaluate(client, "id('config-file').value.slice(id('config-file').selectionStart, id('config-file').selectionEnd)");
  await everywhere(client, "config-wrong");
  await edit("latency_budget_ms = 5000", "latency_budget_ms = 2");
  await me.click("#config-try");
  await me.come("#config-changes td", "latency_budget_ms");
  seen.would = await me.read("#config-said");
  await everywhere(client, "config");
  await me.click("#config-put");
  await me.click("#sure-yes");
  await me.come("#config-said.good");
  seen.changed = await me.read("#config-said");
  await me.until("id('config-text').textContent.includes('latency_budget_ms = 2')", "what runs");
};

const drain = async (client, me) => {
  await me.click("#views a", "Drain");
  await me.come("#drain-state", "Clients are let in.");
  await me.write("#drain-server", "other.example:8883");
  await me.write("#drain-rate", "1");
  await me.click("#drain-begin");
  await me.click("#sure-yes");
  await me.come("#drain-said.good");
  await me.come("#drain-facts dt", "sent away");
  await me.until("[...document.querySelectorAll('#drain-facts dd')].at(-1).textContent.trim() !== '0'", "the first who goes");
  await everywhere(client, "drain");
  await me.click("#drain-end");
  await me.come("#drain-state", "Clients are let in.");
  await me.come("#drain-said", "Clients are let in again.");
  seen.letIn = await me.read("#drain-said");
};

const use = async (client, me) => {
  await me.come("#login h1");
  await everywhere(client, "login");
  await me.logIn("not-a-token");
  await me.come("#login-trouble");
  seen.stranger = await me.read("#login-trouble");

  await me.logIn(options.viewer);
  await me.come("#overview h1");
  await me.click("#views a", "Clients");
  await me.write("#find-id", "img");
  await me.enter();
  await me.come("#client-list a", "<img src=x onerror=alert(1)>");
  // Names of clients and topics are text, whatever is in them.
  seen.markup = await evaluate(client, "document.querySelectorAll('main img').length");
  await me.find("meter-7");
  await me.come("#client-state", "connected");
  seen.viewer = { kick: await evaluate(client, "id('kick').disabled"), why: await me.read("#kick-help") };
  await me.click("#views a", "Config");
  await me.come("#config-sections th", "shards");
  seen.viewerOfConfig = await evaluate(client, "[id('config-form').hidden, id('config-text').textContent.includes('shards')]");
  await me.click("#views a", "Drain");
  await me.come("#drain-state", "Clients are let in.");
  seen.viewerOfDrain = await evaluate(client, "[id('drain-begin').disabled, id('drain-end').disabled]");
  await me.find("meter-7");
  await me.come("#client-state", "connected");
  await me.click("#leave");

  await me.logIn(options.admin);
  // From here on the hash is still that of the client: whoever comes back is where they were.
  await me.come("#client-state", "connected");
  await me.click("#views a", "Clients");
  await me.write("#find-id", "er-7");
  await me.enter();
  await me.until("document.querySelectorAll('#client-list tbody tr').length === 1", "one client");
  await everywhere(client, "clients");
  await me.click("#client-list a", "meter-7");
  await me.come("#subscriptions td, #subscriptions th");
  seen.filter = await me.read("#subscriptions tbody th");
  await everywhere(client, "client");
  await me.click("#kick");
  await me.click("#sure-yes");
  await me.come("#client-state", "absent; its session is kept");

  await me.click("#views a", "Retained");
  await me.click("#retained-list button", "plant/temperature");
  await me.until("id('message-payload').textContent !== ''", "the payload");
  seen.payload = await me.read("#message-payload");
  await everywhere(client, "message");
  await me.click("#message-again");
  await me.come("#publish h1");
  seen.topic = await evaluate(client, "id('topic').value");
  await me.write("#topic", "plant/command");
  await me.write("#payload", "open");
  await me.click("#retain");
  await me.click("#send");
  await me.until("id('published').textContent !== ''", "what became of it");
  seen.published = await me.read("#published");
  await everywhere(client, "publish");

  await me.click("#views a", "Retained");
  await me.write("#filter", "plant/#");
  await me.enter();
  await me.come("#retained-list button", "plant/command");
  await me.click("#retained-list button", "plant/temperature");
  await me.until("id('message-payload').textContent !== ''", "the payload");
  await me.click("#clear");
  await me.click("#sure-yes");
  await me.until("![...document.querySelectorAll('#retained-list button')].some((of) => of.textContent === 'plant/temperature')", "the clearing");
  await everywhere(client, "retained");
  await losses(client, me);
  await mend(client, me);
  await top(client, me);
  await bans(client, me);
  await users(client, me);
  await traces(client, me);
  await config(client, me);
  await me.click("#views a", "Listeners");
  await me.come("#listener-list td", "MQTT over WebSocket");
  await everywhere(client, "listeners");
  await me.click("#views a", "Overview");
  await me.until("document.querySelectorAll('.uplot').length === 7", "the charts");
  seen.about = await me.read("#about");
  seen.isAlone = await evaluate(client, "id('cluster-link').hidden");
  seen.operators = await me.read("[aria-label='By operators']");
  await me.until("document.querySelector('.legend b').textContent !== '-'", "rates");
  await everywhere(client, "overview");
  // New figures do not take the focus away.
  await evaluate(client, "document.querySelector('#tables [aria-label=Threads]').focus(); window.seenRow = document.querySelector('#tables [aria-label=Threads] tr')");
  await me.until("!window.seenRow.isConnected", "new figures");
  seen.focus = await evaluate(client, "document.activeElement.ariaLabel");

  await drain(client, me);
  await me.click("#views a", "Overview");
  await me.until("document.querySelector(\"[aria-label='By operators']\").textContent.includes('sent to another server')", "those who were sent away");
  for (const [status, name] of [[0, "gone"], [429, "often"], [503, "busy"]]) {
    await answering(client, "counters", status, async () => {
      await me.come("#trouble");
      seen[name] = await me.read("#trouble");
      if (status === 0) await everywhere(client, "gone");
    });
    await me.until("id('trouble').hidden", "the end of the trouble");
  }
  // A list that could not be read is read later.
  await answering(client, "clients*", 0, async () => {
    await me.click("#views a", "Clients");
    await me.come("#trouble");
  });
  await me.come("#client-list a");
  await answering(client, "counters", 401, () => me.come("#login-trouble"));
  seen.unknown = await me.read("#login-trouble");
};

// A browser's log has a line for each status that is no success: the unknown token's, and that of
// a configuration that cannot be used, and those of a trace that has ended and of a user without rules.
// A broker on a busy machine may say that it is too busy: the page asks again.
const isExpected = (entry) => entry.source === "network" && (isBroken || /50[34]/.test(entry.text) || (entry.text.includes("409") && /\/config\?/.test(entry.url)) || (entry.text.includes("404") && /\/events\?|\/rights$/.test(entry.url)) || (entry.text.includes("401") && entry.url === url + "api/v1/token"));
await visit("dashboard", url, options, { faults, seen }, use, isExpected);
