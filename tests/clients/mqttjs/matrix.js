// mqtt.js (Node) runs the cells of ../README.md against a broker.
//
// Usage: node matrix.js URL [CAFILE]. Prints a line a cell; the exit code says whether all passed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import mqtt from "mqtt";

const [URL, CAFILE] = process.argv.slice(2);
const CA = CAFILE && readFileSync(CAFILE);
const WAIT_MS = 20_000;

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// What came, and who waits for it.
class Inbox {
  #items = [];
  #waiting = [];

  put(item) {
    const waiting = this.#waiting.shift();
    if (waiting) waiting(item);
    else this.#items.push(item);
  }

  take() {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift());
    return within(new Promise((resolve) => this.#waiting.push(resolve)), "message");
  }
}

// A client whose messages and acknowledgements can be waited for.
class Peer {
  messages = new Inbox();

  static async join(id, version, { clean = true, expiryS = 0, will, aliasMaximum } = {}) {
    const peer = new Peer();
    const v5 = { sessionExpiryInterval: expiryS };
    if (aliasMaximum) v5.topicAliasMaximum = aliasMaximum;
    peer.client = mqtt.connect(URL, {
      ca: CA,
      protocolVersion: version,
      clientId: `mqttjs-${version}-${id}`,
      clean,
      keepalive: 30,
      // Nobody comes back by himself.
      reconnectPeriod: 0,
      will,
      ...(version === 5 ? { properties: v5 } : {}),
    });
    peer.client.on("error", () => {});
    peer.client.on("message", (topic, payload, { qos, retain, properties }) =>
      peer.messages.put({ topic, payload: payload.toString(), qos, retain, properties }),
    );
    peer.gone = new Promise((resolve) => peer.client.once("close", resolve));
    const connack = new Promise((resolve, reject) => {
      peer.client.once("connect", resolve);
      peer.client.once("error", reject);
    });
    peer.sessionPresent = (await within(connack, "CONNACK")).sessionPresent;
    return peer;
  }

  async subscribe(topic, qos = 0, properties) {
    const options = properties ? { qos, properties } : { qos };
    const granted = await within(this.client.subscribeAsync(topic, options), "SUBACK");
    assert(granted[0].qos < 128, `refused: ${granted[0].qos}`);
  }

  publish(topic, payload, qos = 0, options = {}) {
    const published = this.client.publishAsync(topic, payload, { qos, ...options });
    return within(published, "acknowledgement");
  }

  async get() {
    const { topic, payload, qos, retain } = await this.messages.take();
    return [topic, payload, qos, retain];
  }

  leave() {
    return within(this.client.endAsync(), "end");
  }

  // Ends the connection without DISCONNECT.
  cut() {
    this.client.stream.destroy();
  }
}

const leave = (...peers) => Promise.all(peers.map((peer) => peer.leave()));

async function qos(version, root) {
  const [sub, pub] = [await Peer.join("sub", version), await Peer.join("pub", version)];
  for (const granted of [0, 1, 2]) {
    const topic = `${root}/${granted}`;
    await sub.subscribe(topic, granted);
    for (const sent of [0, 1, 2]) {
      await pub.publish(topic, `${sent}`, sent);
      assert.deepEqual(await sub.get(), [topic, `${sent}`, Math.min(sent, granted), false]);
    }
  }
  await leave(sub, pub);
}

async function order(version, root) {
  const [sub, pub] = [await Peer.join("sub", version), await Peer.join("pub", version)];
  await sub.subscribe(root, 2);
  const sent = [];
  for (let number = 0; number < 300; number++) {
    sent.push(pub.publish(root, `${number}`, number % 3));
    // More than 20 in flight are too many for some brokers.
    if (number % 15 === 0) await Promise.all(sent);
  }
  await Promise.all(sent);
  const got = [];
  for (let number = 0; number < 300; number++) got.push(await sub.get());
  for (const level of [0, 1, 2]) {
    const numbers = got.filter((message) => message[2] === level).map((message) => +message[1]);
    assert.deepEqual(numbers, Array.from({ length: 100 }, (_, at) => 3 * at + level));
  }
  await leave(sub, pub);
}

async function retained(version, root) {
  const pub = await Peer.join("pub", version);
  await pub.publish(`${root}/1`, "v", 1, { retain: true });
  const sub = await Peer.join("sub", version);
  await sub.subscribe(`${root}/+`, 1);
  assert.deepEqual(await sub.get(), [`${root}/1`, "v", 1, true]);
  await pub.publish(`${root}/1`, "", 1, { retain: true });
  assert.deepEqual(await sub.get(), [`${root}/1`, "", 1, false]);
  const late = await Peer.join("late", version);
  await late.subscribe(`${root}/+`, 1);
  await pub.publish(`${root}/mark`, "m", 1);
  assert.equal((await late.get())[0], `${root}/mark`, "the retained message was cleared");
  await leave(pub, sub, late);
}

async function will(version, root) {
  const watcher = await Peer.join("watcher", version);
  await watcher.subscribe(`${root}/#`, 1);
  const of = (topic) => ({ will: { topic: `${root}/${topic}`, payload: Buffer.from("gone"), qos: 1 } });
  await (await Peer.join("polite", version, of("polite"))).leave();
  (await Peer.join("victim", version, of("victim"))).cut();
  assert.deepEqual(await watcher.get(), [`${root}/victim`, "gone", 1, false]);
  await leave(watcher);
}

async function resume(version, root) {
  const pub = await Peer.join("pub", version);
  const kept = { clean: false, expiryS: 60 };
  const sub = await Peer.join("sleeper", version, kept);
  await sub.subscribe(`${root}/#`, 2);
  await sub.leave();
  for (const level of [1, 2]) await pub.publish(`${root}/${level}`, "kept", level);
  const back = await Peer.join("sleeper", version, kept);
  assert(back.sessionPresent, "session present");
  for (const level of [1, 2]) {
    assert.deepEqual((await back.get()).slice(0, 3), [`${root}/${level}`, "kept", level]);
  }
  await back.leave();
  const fresh = await Peer.join("sleeper", version);
  assert(!fresh.sessionPresent, "no session present");
  await leave(fresh, pub);
}

async function shared(version, root) {
  const jobs = new Inbox();
  const members = [];
  for (const number of [0, 1, 2]) {
    const member = await Peer.join(`m${number}`, version);
    member.messages = jobs;
    await member.subscribe(`$share/group/${root}/job`, 1);
    await member.subscribe(`${root}/end`, 1);
    members.push(member);
  }
  const pub = await Peer.join("pub", version);
  for (let number = 0; number < 30; number++) await pub.publish(`${root}/job`, `${number}`, 1);
  const got = [];
  for (let number = 0; number < 30; number++) got.push(+(await jobs.take()).payload);
  got.sort((a, b) => a - b);
  assert.deepEqual(got, Array.from({ length: 30 }, (_, at) => at));
  await pub.publish(`${root}/end`, "e", 1);
  for (const _ of members) assert.equal((await jobs.take()).payload, "e", "each once");
  await leave(pub, ...members);
}

async function takeover(version) {
  const first = await Peer.join("twin", version);
  const second = await Peer.join("twin", version);
  await within(first.gone, "end of the first");
  await leave(second);
}

async function aliases(version, root) {
  const sub = await Peer.join("sub", version, { aliasMaximum: 5 });
  const pub = await Peer.join("pub", version);
  await sub.subscribe(`${root}/#`, 1);
  const by = (topicAlias) => ({ properties: { topicAlias } });
  await pub.publish(`${root}/a`, "1", 1, by(1));
  await pub.publish(`${root}/b`, "2", 0, by(2));
  await pub.publish("", "3", 1, by(1));
  await pub.publish("", "4", 0, by(2));
  await pub.publish(`${root}/c`, "5", 1, by(1));
  await pub.publish("", "6", 1, by(1));
  const got = [];
  for (let number = 0; number < 6; number++) {
    const [topic, payload] = await sub.get();
    got.push([+payload, topic]);
  }
  got.sort((a, b) => a[0] - b[0]);
  assert.deepEqual(got, [..."ababcc"].map((topic, at) => [at + 1, `${root}/${topic}`]));
  await leave(sub, pub);
}

async function properties(version, root) {
  const [sub, pub] = [await Peer.join("sub", version), await Peer.join("pub", version)];
  await sub.subscribe(`${root}/#`, 1, { subscriptionIdentifier: 77 });
  // mqtt.js keeps user properties by name: the order of different names is not seen.
  const sent = {
    userProperties: { b: ["1", "3"], a: "2" },
    responseTopic: "reply/to",
    correlationData: Buffer.from([0, 1]),
    contentType: "text/plain",
    payloadFormatIndicator: true,
    messageExpiryInterval: 100,
  };
  await pub.publish(`${root}/x`, "v", 1, { properties: sent });
  const { messageExpiryInterval, ...got } = (await sub.messages.take()).properties;
  const { messageExpiryInterval: _, ...expected } = { ...sent, subscriptionIdentifier: 77 };
  assert.deepEqual({ ...got, userProperties: { ...got.userProperties } }, expected);
  assert(messageExpiryInterval > 0 && messageExpiryInterval <= 100, `${messageExpiryInterval}`);
  await leave(sub, pub);
}

async function expiry(version, root) {
  const kept = await Peer.join("kept", version, { clean: false, expiryS: 60 });
  await kept.subscribe(`${root}/#`, 1);
  await kept.leave();
  await (await Peer.join("short", version, { clean: false, expiryS: 1 })).leave();
  const pub = await Peer.join("pub", version);
  const after = (messageExpiryInterval) => ({ properties: { messageExpiryInterval } });
  await pub.publish(`${root}/short`, "expired", 1, after(1));
  await pub.publish(`${root}/long`, "there", 1, after(60));
  // No event tells that time has passed.
  await sleep(2500);
  const back = await Peer.join("kept", version, { clean: false });
  assert(back.sessionPresent, "session present");
  const message = await back.messages.take();
  assert.equal(message.topic, `${root}/long`);
  assert(message.properties.messageExpiryInterval <= 58, "the time it waited is taken off");
  const gone = await Peer.join("short", version, { clean: false });
  assert(!gone.sessionPresent, "its session has expired");
  await leave(back, gone, pub);
}

const BOTH = [qos, order, retained, will, resume, shared, takeover];
const ONLY_5 = [aliases, properties, expiry];

let failed = 0;
for (const [name, version, cells] of [
  ["3.1.1", 4, BOTH],
  ["5.0", 5, [...BOTH, ...ONLY_5]],
]) {
  for (const cell of cells) {
    const cellName = `${name}/${cell.name}`;
    try {
      await cell(version, `mqttjs/${cellName}`);
      console.log(`ok ${cellName}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${cellName} ${error.message.replaceAll("\n", " ")}`);
    }
  }
}
// Clients of cells that failed may still be connected.
process.exit(failed ? 1 : 0);
