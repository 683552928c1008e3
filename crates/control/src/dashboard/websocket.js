// The page as a client of MQTT: it subscribes and publishes by a WebSocket of the broker.

import { ask } from "./api.js";
import { Client } from "./mqtt.js";
import { number, short, table, text } from "./shown.js";

const URL_KEPT = "weir-websocket", MESSAGES_MAX = 100, SHOWN_MAX = 2_000;

let client = null, messages = [], isOwed = false;

const say = (words, kind = "soft") => { id("ws-said").className = kind; id("ws-said").textContent = words; };
function state(words, kind = "soft") {
  id("ws-state").className = kind;
  id("ws-state").textContent = words;
  id("ws-open").disabled = client !== null;
  id("ws-close").disabled = client === null;
}

export async function show() {
  const url = sessionStorage.getItem(URL_KEPT) ?? await usual();
  // Whoever has written another one meanwhile keeps it.
  id("ws-url").value ||= url;
  id("ws-id").value ||= "dashboard-" + Math.random().toString(36).slice(2, 8);
}

// The first listener that speaks WebSocket, as this page reaches the broker's host.
async function usual() {
  const { listeners } = await ask("listeners"), of = listeners.find(({ speaks }) => speaks.includes("WebSocket"));
  const port = /:(\d+)$/.exec(of?.address ?? "")?.[1] ?? "8083";
  return `${of?.certificate ? "wss" : "ws"}://${location.hostname}:${port}/mqtt`;
}

/** Whoever logs out is no client any more. */
export function leave() {
  client?.close();
  id("ws-password").value = "";
  messages = [];
  list();
}

// Text if it is some, else hexadecimal digits.
function shown(payload) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(payload.subarray(0, SHOWN_MAX)) || "(empty)";
  } catch {
    return [...payload.subarray(0, SHOWN_MAX / 4)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  }
}

function list() {
  fill(id("ws-list"), messages.length ? [table("Messages that came, the newest first", [text("topic"), text("payload"), number("QoS"), short("retained"), short("when")],
    messages.map((of) => [of.topic, of.payload, String(of.qos), of.retain ? "yes" : "-", of.at]))] : []);
}

// However fast messages come, they are drawn a few times a second.
function came({ topic, payload, qos, retain }) {
  messages = [{ topic, payload: shown(payload), qos, retain, at: clock(Date.now() / 1000) }, ...messages].slice(0, MESSAGES_MAX);
  if (isOwed) return;
  isOwed = true;
  setTimeout(() => { isOwed = false; list(); }, 200);
}

id("ws-connect").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (client) return;
  const url = id("ws-url").value;
  sessionStorage.setItem(URL_KEPT, url);
  try {
    const mine = new Client(url, { id: id("ws-id").value, user: id("ws-user").value, password: id("ws-password").value }, {
      message: came,
      ended: (why) => { if (client === mine || client === null) { client = null; state(why, why === "disconnected" ? "soft" : "bad"); } },
    });
    client = mine;
    state("connecting");
    await mine.ready;
    state(`connected to ${url}`, "good");
  } catch (error) {
    client = null;
    state(error.message, "bad");
  }
});
id("ws-close").onclick = () => client?.close();

const act = (form, done) => id(form).addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!client) return say("Connect first.", "bad");
  try { say(await done(client), "good"); } catch (error) { say(error.message, "bad"); }
});
act("ws-subscribe", async (of) => {
  const filter = id("ws-filter").value;
  await of.subscribe(filter, Number(id("ws-filter-qos").value));
  return `Subscribed to ${filter}.`;
});
act("ws-publish", async (of) => {
  const topic = id("ws-topic").value;
  await of.publish(topic, id("ws-payload").value, Number(id("ws-qos").value), id("ws-retain").checked);
  return `Published to ${topic} at ${clock(Date.now() / 1000)}.`;
});
state("not connected");
