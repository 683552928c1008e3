// mqtt.js: events of the client, `publish` with a callback, Node's JSON.parse.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { join } from 'node:path';

const WORKFLOWS = ['subscribe', 'workflow', 'publish', 'connect'];
const TICK_MS = 1;
const WAIT_MS = 10_000;
// How long to wait for acknowledgements after `stop`.
const LEAVE_MS = 2_000;
const N_FIRST = 1_000_000_000;
// 300 bytes with the ten digits of `n` and the closing brace.
const RECORD =
  '{"t":1521028800,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,"z":220,"s":62,' +
  '"c":184,"sc":11},"i":3,"o":0,"p":{"mcc":257,"mnc":2,"lac":10471,"cell_id":55023,"gsm":21,' +
  '"pwr_ext":13.842,"pwr_int":4.103,"odo":48213.671,"hdop":1,"temp":21.5,"fuel":47.25,"rpm":1840,' +
  '"ign":1},"n":';

const { values } = parseArgs({
  options: {
    modules: { type: 'string' },
    host: { type: 'string' },
    port: { type: 'string' },
    workflow: { type: 'string' },
    in: { type: 'string', default: 'ud/#' },
    out: { type: 'string', default: 'out' },
    qos: { type: 'string', default: '0' },
    rate: { type: 'string', default: '0' },
    json: { type: 'string', default: 'JSON' },
  },
});
const workflow = values.workflow;
const [qos, rate] = [Number(values.qos), Number(values.rate)];
if (!values.modules || !values.host || !values.port || !WORKFLOWS.includes(workflow)) {
  fail('needed: --modules, --host, --port and a --workflow of ' + WORKFLOWS.join(', '));
}
if (['publish', 'connect'].includes(workflow) && !(rate > 0)) {
  fail('--rate must be above 0 for the workflows publish and connect');
}

// The modules are in the cache, not next to this file.
const require = createRequire(join(values.modules, 'package.json'));
const mqtt = require('mqtt');
const { version } = require('mqtt/package.json');

const counts = { received: 0, matched: 0, published: 0, failed: 0, connects: 0 };
let client;
let leaving = false;
let timer;

function fail(text) {
  console.error(text);
  process.exit(1);
}

function say(line) {
  process.stdout.write(line + '\n');
}

function sayCounts() {
  const { received, matched, published, failed, connects } = counts;
  const line =
    `counts received=${received} matched=${matched} ` + `published=${published} failed=${failed}`;
  say(workflow === 'connect' ? `${line} connects=${connects}` : line);
}

function connect() {
  return mqtt.connect({
    host: values.host,
    port: Number(values.port),
    protocolVersion: 4,
    clientId: `stack-${process.pid}`,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: WAIT_MS,
  });
}

function publish(payload) {
  client.publish(values.out, payload, { qos }, (error) => {
    if (error) counts.failed += 1;
    else counts.published += 1;
  });
}

function hasCell(record) {
  const p = record?.p;
  return (
    p !== null && typeof p === 'object' && 'mcc' in p && 'mnc' in p && 'lac' in p && 'cell_id' in p
  );
}

function forward(_topic, payload) {
  counts.received += 1;
  let record;
  try {
    record = JSON.parse(payload.toString());
  } catch {
    counts.failed += 1;
    return;
  }
  if (hasCell(record)) {
    counts.matched += 1;
    publish(payload);
  }
}

// Open loop: calls `operation(number)` when it is due; late ones are called at once.
function pace(operation) {
  const begin = performance.now();
  let number = 0;
  timer = setInterval(() => {
    const due = Math.floor(((performance.now() - begin) * rate) / 1000) + 1;
    while (number < due) {
      operation(number);
      number += 1;
    }
  }, TICK_MS);
}

// One connection after the other; late ones follow at once.
function churn() {
  let [due, busy] = [0, false];
  const next = () => {
    if (busy || due === 0 || leaving) return;
    [due, busy] = [due - 1, true];
    const one = connect();
    let joined = false;
    one.on('connect', () => {
      joined = true;
      one.end();
    });
    one.on('error', () => one.end(true));
    one.on('close', () => {
      if (joined) counts.connects += 1;
      else counts.failed += 1;
      busy = false;
      next();
    });
  };
  pace(() => {
    due += 1;
    next();
  });
}

function start() {
  if (timer) return;
  if (workflow === 'publish') pace((number) => publish(`${RECORD}${N_FIRST + number}}`));
  if (workflow === 'connect') churn();
}

function stop() {
  if (leaving) return;
  leaving = true;
  clearInterval(timer);
  const end = () => {
    sayCounts();
    process.stdout.write('', () => process.exit(0));
  };
  if (!client) return end();
  // Waits until everything in flight is acknowledged.
  client.end(end);
  setTimeout(end, LEAVE_MS).unref();
}

function ready() {
  const { node, v8 } = process.versions;
  say(`ready node-mqttjs mqtt.js-${version} node-${node} JSON-v8-${v8}`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const command = line.trim();
    if (command === 'start') start();
    else if (command === 'counts') sayCounts();
    else if (command === 'stop') stop();
    else if (command) console.error(`no such command: ${command}`);
  });
  lines.on('close', stop);
}

if (workflow === 'connect') {
  ready();
} else {
  client = connect();
  client.on('error', (error) => fail(error.message));
  client.on('close', () => {
    if (!leaving) fail('disconnected');
  });
  client.on('message', workflow === 'subscribe' ? () => (counts.received += 1) : forward);
  client.on('connect', () => {
    if (workflow === 'publish') return ready();
    client.subscribe(values.in, { qos }, (error, granted) => {
      if (error || granted[0].qos > 2) fail(`subscription refused: ${error?.message ?? ''}`);
      ready();
    });
  });
}
