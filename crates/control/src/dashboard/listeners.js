// Where clients come in, with certificates; and bridges to other brokers.

import { ask } from "./api.js";
import { number, short, table, text } from "./shown.js";

const DAYS_BAD = 7, DAYS_DOUBT = 30;

const left = (days) => days < 0 ? make("span", "expired", "bad") : make("span", count(days), days < DAYS_BAD ? "bad" : days < DAYS_DOUBT ? "doubt" : "");

export async function showListeners(_wanted, isCurrent) {
  id("listener-state").textContent = "looking";
  const { listeners } = await ask("listeners"), { bridges } = await ask("bridges");
  if (!isCurrent()) return;
  id("listener-state").textContent = `${listeners.length} listener${listeners.length === 1 ? "" : "s"}, ${bridges.length || "no"} bridge${bridges.length === 1 ? "" : "s"}`;
  fill(id("listener-list"), [table("Listeners", [text("address"), short("speaks"), number("connections"), text("certificate"), number("days left")],
    listeners.map((of) => [of.address, of.speaks, count(of.connections), of.certificate ? `${of.certificate.subject}, ${of.certificate.file}` : "-", of.certificate ? left(of.certificate.days_left) : "-"]))]);
  fill(id("bridge-list"), bridges.length ? [make("h2", "Bridges"), table("Bridges", [text("name"), text("remote broker"), short("state"), number("queued"), number("out"), number("in"), text("last error")],
    bridges.map((of) => [of.name, of.remote, make("span", of.connected ? "connected" : "not connected", of.connected ? "good" : "bad"), count(of.queued_messages),
      count(of.counters.messages_out ?? 0), count(of.counters.messages_in ?? 0), of.last_error ?? "-"]))] : []);
}
