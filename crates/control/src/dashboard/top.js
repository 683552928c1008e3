// Which clients send and get most, counted again and again while this is open and in front.

import { ask, query } from "./api.js";
import { link, number, refill, table, text, tile } from "./shown.js";

const SECONDS = 5, CLIENTS = 50, NAME = "Clients that talk most";

const inFront = () => new Promise((done) => document.hidden ? document.addEventListener("visibilitychange", () => done(inFront()), { once: true }) : done());

export async function showTop(wanted, isCurrent) {
  const { by = "messages", direction = "" } = wanted;
  id("top-by").value = by;
  id("top-direction").value = direction;
  for (const name of ["top-total", "top-list"]) fill(id(name), []);
  id("top-state").textContent = `counting for ${SECONDS} s`;
  while (isCurrent()) {
    const top = await ask("top" + query({ seconds: SECONDS, by, direction, limit: CLIENTS }));
    if (isCurrent()) show(top);
    await inFront();
  }
}

function show({ seconds, total, clients }) {
  const rate = (n) => { const of = n / seconds; return of && of < 10 ? of.toFixed(1) : count(of); }, volume = (n) => bytes(n / seconds);
  id("top-state").textContent = clients.length ? `Counted anew every ${SECONDS} s while this page is open.` : `Nobody has said anything for ${SECONDS} s.`;
  fill(id("top-total"), [tile("messages in", rate(total.messages_in), "/s"), tile("messages out", rate(total.messages_out), "/s"),
    tile("bytes in", volume(total.bytes_in), "/s"), tile("bytes out", volume(total.bytes_out), "/s")]);
  refill(id("top-list"), clients.length ? [table(NAME, [text("client"), text("user"), number("messages in /s"), number("out /s"), number("bytes in /s"), number("out /s")],
    clients.map((of) => [link(of.client_id, "#client" + query({ id: of.client_id })), of.user ?? "-", rate(of.messages_in), rate(of.messages_out), volume(of.bytes_in), volume(of.bytes_out)]))] : []);
}

const go = () => { location.hash = "#top" + query({ by: id("top-by").value, direction: id("top-direction").value }); };
for (const name of ["top-by", "top-direction"]) id(name).addEventListener("change", go);
