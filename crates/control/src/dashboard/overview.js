// How the broker does: rates out of counters that are read every two seconds, and an hour of them,
// which begins with what the broker has kept.

import { lasting, number, refill, table, text, tile } from "./shown.js";

const SPAN_S = 3600, GAP_S = 70;

// Why something did not happen, by the counter that counts it.
const DROPS = {
  dropped_output_full: "the receiver's output was full (QoS 0)", dropped_queue_full: "the queue of an absent session was full",
  dropped_too_large: "larger than the receiver takes", dropped_expired: "expired in a queue", dropped_absent_qos0: "QoS 0 for an absent session",
  dropped_no_member: "the last member of a shared group left", reads_forbidden: "the receiver has no right to read",
};
const REFUSED = {
  publishes_refused: "publishes: all", writes_forbidden: "publishes: no right to the topic, of these",
  subscriptions_refused: "filters of SUBSCRIBE", sessions_refused: "new sessions: too many", retained_refused: "retained messages: the store is full",
  rule_results_refused: "results of rules", refused_count: "connections: connections_max", refused_address: "connections: connections_per_address_max",
  refused_rate: "connections: connects_per_second_max", cut: "connections: before the handshake", banned: "connections: banned",
  cut_strangers: "connections: no known proxy", passwords_wrong: "passwords that are wrong", passwords_busy: "passwords: too many at once",
  tokens_wrong: "clients' tokens that are wrong", api_unauthorized: "requests of the API without a known token",
  api_forbidden: "requests of the API beyond a token's role", api_too_many: "requests of the API: too many",
  api_connections_cut: "connections of the API: too many of a network", api_connections_displaced: "connections of the API that made room for others",
};
const FAULTS = {
  transport_errors: "TLS, WebSocket or PROXY protocol failed", accept_errors: "connections that could not be accepted",
  faulty: "connections ended for a fault or a bound", queue_overflows: "sessions ended by a full queue",
  held_back: "peers that take too little", answers_dropped: "answers that found no room here", log_lines_lost: "lines of the log lost",
};

// The reason code of what a person or a ban ends.
const BY_OPERATORS = "Administrative action";
const OPERATORS = { ended_by_operators: "connections ended by an administrator or a ban", connections_sent_away: "connections ended by a drain: their clients were sent to another server", certificates_ended: "connections ended for a certificate that counts no more" };

const perSecond = (n) => n >= 100 || n === 0 ? count(n) : n.toFixed(n >= 10 ? 1 : 2);
const bytesPerSecond = (n) => bytes(n) + "/s";
const CHARTS = [
  { title: "Messages per second", text: perSecond, least: 0.01, lines: [["in", "publishes_in"], ["out", "publishes_out"]] },
  { title: "Connections", text: count, lines: [["open", "connections"], ["sessions", "sessions"]] },
  { title: "Bytes per second", text: bytesPerSecond, lines: [["in", "bytes_in"], ["out", "bytes_out"]] },
  { title: "Connections per second", text: perSecond, least: 0.01, lines: [["accepted", "connections_opened"], ["refused", "refused"]] },
  { title: "Dropped per second", text: perSecond, least: 0.01, lines: [["all reasons", "drops"]] },
  { title: "Latency in the broker, at most", text: time, lines: [["half", "latency_half"], ["99 of 100", "latency_most"]] },
  { title: "Memory", text: bytes, lines: [["resident", "rss_bytes"]] },
];
const NOW = ["connections", "sessions", "rss_bytes"];
const sumOf = (counters, names) => names.reduce((sum, name) => sum + (counters[name] ?? 0), 0);

// The last sample, and the one before it if rates can be told from the two.
let last = null, since = null, rows = [], restarts = [], charts = [], about = null;

/** Takes what the broker said just now. Says whether it has started anew since. */
export function take(answer, at_s) {
  const counters = { ...answer.process, ...answer.sum };
  // What an operator ends is no fault.
  counters.ended_by_operators = answer.sum.refusals?.[BY_OPERATORS] ?? 0;
  counters.faulty = (counters.connections_ended ?? 0) - sumOf(counters, Object.keys(OPERATORS));
  counters.drops = sumOf(counters, Object.keys(DROPS));
  counters.refused = sumOf(counters, ["connections_refused", "refused_count", "refused_address", "refused_rate", "cut", "banned", "cut_strangers"]);
  const sample = { at_s, counters, refusals: answer.sum.refusals ?? {}, shards: answer.shards, latency: answer.histograms?.latency };
  const isNew = last && (counters.turns < last.counters.turns || counters.connections_opened < last.counters.connections_opened);
  if (isNew) restarts = [...restarts.filter(([at]) => at > at_s - SPAN_S), [at_s, "restart"]];
  since = last && !isNew && at_s - last.at_s < GAP_S ? last : null;
  // Where nobody looked, nobody knows: a gap.
  if (last && !since) rows.push({ at_s: last.at_s + 0.001 });
  last = sample;
  const row = { at_s };
  for (const name of CHARTS.flatMap((chart) => chart.lines.map(([, of]) => of))) row[name] = NOW.includes(name) ? counters[name] : rate(counterOf, name);
  row.latency_half = quantile(0.5);
  row.latency_most = quantile(0.99);
  rows = [...rows.filter((old) => old.at_s > at_s - SPAN_S), row];
  return isNew;
}

const counterOf = (sample) => sample.counters;
const rate = (of, name) => since ? ((of(last)[name] ?? 0) - (of(since)[name] ?? 0)) / (last.at_s - since.at_s) : null;

// How long so many of the messages since the sample before took at most, in microseconds.
function quantile(share) {
  if (!since?.latency || !last.latency) return null;
  const counts = last.latency.counts.map((count, at) => count - since.latency.counts[at]);
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (!all) return null;
  let seen = 0;
  const at = counts.findIndex((count) => (seen += count) >= share * all);
  return last.latency.bounds_us[Math.min(at, last.latency.bounds_us.length - 1)];
}

// What is kept of the past has only the counters of the charts.
const rateNow = (of, name) => since?.shards.length ? rate(of, name) : null;

/** Takes what the broker has kept of the time before. */
export function takeHistory({ age_s, counters, latency }, now_s) {
  age_s.forEach((age, at) => {
    const sum = Object.fromEntries(Object.entries(counters).map(([name, list]) => [name, list[at]]));
    take({ sum, process: {}, shards: [], histograms: { latency: latency[at] } }, now_s - age);
  });
}

/** Takes which broker it is. */
export function takeAbout({ version, uptime_s }) {
  about = { version, since: new Date(Date.now() - uptime_s * 1000) };
}

export function forget() {
  last = null; since = null; rows = []; restarts = []; charts = [];
  for (const name of ["charts", "tiles", "tables"]) id(name).replaceChildren();
}

const columns = (chart) => [rows.map((row) => row.at_s), ...chart.lines.map(([, of]) => rows.map((row) => row[of] ?? null))];

export function show() {
  if (!last?.shards.length) return;
  showTiles();
  if (about) id("about").textContent = `Weir ${about.version}, since ${about.since.toLocaleString()} (${lasting((Date.now() - about.since) / 1000)}), ${last.shards.length} thread${last.shards.length === 1 ? "" : "s"}.`;
  const minutes = Math.round((rows.at(-1).at_s - rows[0].at_s) / 60);
  id("span").textContent = `The last ${minutes <= 1 ? "minute" : minutes + " min"}. An hour is kept of what this page, or another, or a scraper of metrics has read.`;
  if (charts.length) charts.forEach(([chart, drawn]) => drawn.set(columns(chart)));
  else charts = CHARTS.map((chart) => [chart, draw(id("charts"), { ...chart, clock: true }, chart.lines.map(([name]) => name), columns(chart), () => restarts, () => [])]);
  showTables();
}
export const repaint = () => charts.forEach(([, drawn]) => drawn.redraw());

function showTiles() {
  const { counters } = last, row = rows.at(-1), full = counters.rss_bytes / counters.rss_bytes_max;
  const memory = counters.rss_bytes_max ? tile("memory", bytes(counters.rss_bytes), `${(full * 100).toFixed(full < 0.1 ? 1 : 0)} % of ${bytes(counters.rss_bytes_max)}`, full > 0.9 ? "bad" : full > 0.75 ? "doubt" : "")
    : tile("memory", bytes(counters.rss_bytes), "no ceiling");
  fill(id("tiles"), [
    tile("connections", count(counters.connections), `of ${count(counters.sessions)} sessions`),
    tile("messages in", or(row.publishes_in, perSecond), "/s"), tile("messages out", or(row.publishes_out, perSecond), "/s"),
    tile("bytes in", or(row.bytes_in, bytes), "/s"), tile("bytes out", or(row.bytes_out, bytes), "/s"),
    tile("retained", count(counters.retained)), tile("filters", count(counters.filters)), memory,
    tile("dropped", or(row.drops, perSecond), `/s, ${count(counters.drops)} in all`, row.drops > 0 ? "bad" : ""),
    tile("transport errors", count(counters.transport_errors), "TLS, WebSocket", counters.transport_errors > 0 ? "doubt" : ""),
    ..."auth_service_up" in counters ? [tile("auth service", counters.auth_service_up ? "up" : "down", `${count(counters.auth_service_queue)} wait`, counters.auth_service_up ? "good" : "bad")] : [],
    ..."store_disk_bytes" in counters ? [tile("log on disk", bytes(counters.store_disk_bytes), `${count(counters.log_waits)} wait for it`)] : [],
  ]);
}

// Counters by reason, those that have counted something first.
function reasons(title, names, of = counterOf) {
  const counted = Object.entries(names).filter(([name]) => of(last)[name] > 0);
  return block(title, counted.length ? table(title, [text("why"), number("in all"), number("/s")],
    counted.map(([name, why]) => [why, count(of(last)[name]), or(rateNow(of, name), perSecond)])) : make("p", "nothing so far", "soft"));
}

function block(title, of) {
  const box = make("section");
  box.append(make("h2", title), of);
  return box;
}

function facts(title, list) {
  return block(title, table(title, [text("what"), number("now")], list));
}

function showTables() {
  const { counters, refusals, shards } = last, perS = (name) => or(rateNow(counterOf, name), perSecond) + " /s";
  const blocks = [
    reasons("Dropped, by reason", DROPS),
    reasons("Refused, by what", REFUSED),
    reasons("Refused, by reason code", Object.fromEntries(Object.keys(refusals).filter((name) => name !== BY_OPERATORS).map((name) => [name, name])), (sample) => sample.refusals),
    reasons("Faults", FAULTS),
    reasons("By operators", OPERATORS),
    block("Threads", table("Threads", [text("shard"), number("connections"), number("sessions"), number("in /s"), number("out /s")], shards.map((shard, at) => {
      const of = (name) => or(rateNow((sample) => sample.shards[at] ?? {}, name), perSecond);
      return [String(at), count(shard.connections), count(shard.sessions), of("publishes_in"), of("publishes_out")];
    }))),
  ];
  if ("auth_service_up" in counters) {
    const asked = rateNow(counterOf, "auth_service_asked"), spent = rateNow(counterOf, "auth_service_us_sum");
    blocks.push(facts("Authentication service", [["answers", counters.auth_service_up ? "yes" : "no"], ["asked", perS("auth_service_asked")],
      ["mean time", asked > 0 ? time(spent / asked) : "-"], ["longest", time(counters.auth_service_us_max)], ["allowed", count(counters.auth_service_allowed)],
      ["denied", count(counters.auth_service_denied)], ["failed", count(counters.auth_service_failed)], ["timed out", count(counters.auth_service_timed_out)], ["too busy", count(counters.auth_service_busy)]]));
  }
  if ("store_disk_bytes" in counters) {
    blocks.push(facts("Store", [["on disk", bytes(counters.store_disk_bytes)], ["records", perS("store_records")], ["commits", perS("store_commits")],
      ["committed", or(rateNow(counterOf, "store_committed_bytes"), bytesPerSecond)],
      ["slowest commit", time(Math.max(...shards.map((shard) => shard.store_commit_us_max)))], ["answers that wait", count(counters.log_waits)], ["pages of queues", count(counters.store_pages)]]));
  }
  refill(id("tables"), blocks);
}
