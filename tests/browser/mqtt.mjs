// A page with mqtt.js in Chromium is a client of a broker by WebSocket:
//
//   node mqtt.mjs URL... [--browser PROGRAM]
//
// For each URL the page, which comes from http://127.0.0.1, connects as MQTT 3.1.1 and 5.0, and sends
// itself messages of every QoS, long ones, and a retained one. Prints a line of JSON for each URL:
// "came" is what it got, or "refused" why it was not let in. Certificates are not checked.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { evaluate, inChromium } from "./chromium.mjs";

const MQTT_JS = readFileSync(new URL("../clients/mqttjs/node_modules/mqtt/dist/mqtt.min.js", import.meta.url));
const PAGE = "<!doctype html><title>client</title><script src=mqtt.js></script>";

const { values: options, positionals: urls } = parseArgs({
  allowPositionals: true,
  options: { browser: { type: "string", default: "chromium" } },
});

// Runs in the page.
const talk = async (url) => {
  const came = [];
  for (const protocolVersion of [4, 5]) {
    const client = mqtt.connect(url, { protocolVersion, reconnectPeriod: 0, connectTimeout: 20_000 });
    const refused = await new Promise((done) => {
      client.once("connect", () => done(null));
      client.once("error", (error) => done(String(error.message || error.type || error)));
      client.once("close", () => done("closed"));
    });
    if (refused !== null) return { refused };
    const [kept, all] = ["browser/kept", "browser/last"].map((awaited) => new Promise((done) => {
      client.on("message", (topic) => topic === awaited && done());
    }));
    client.on("message", (topic, payload, { qos, retain }) => {
      came.push([protocolVersion, topic, payload.length, qos, retain]);
    });
    await client.publishAsync("browser/kept", "kept", { qos: 1, retain: true });
    await client.subscribeAsync("browser/#", { qos: 2 });
    // What is retained may come between others: another thread of the broker may have it.
    await kept;
    for (const qos of [0, 1, 2]) {
      for (const length of [0, 100, 70_000]) await client.publishAsync("browser/" + qos, "x".repeat(length), { qos });
    }
    await client.publishAsync("browser/last", "", { qos: 1 });
    await all;
    await client.endAsync();
  }
  return { came };
};

const server = createServer(({ url }, answer) => {
  answer.setHeader("Content-Type", url === "/mqtt.js" ? "text/javascript" : "text/html");
  answer.end(url === "/mqtt.js" ? MQTT_JS : PAGE);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
await inChromium(options.browser, ["--ignore-certificate-errors"], async (client) => {
  await Promise.all([client.Page.enable(), client.Runtime.enable()]);
  const loaded = client.Page.loadEventFired();
  await client.Page.navigate({ url: "http://127.0.0.1:" + server.address().port + "/" });
  await loaded;
  for (const url of urls) {
    const told = await evaluate(client, "(" + talk + ")(" + JSON.stringify(url) + ")");
    console.log(JSON.stringify({ url, origin: "http://127.0.0.1:" + server.address().port, ...told }));
  }
});
server.close();
