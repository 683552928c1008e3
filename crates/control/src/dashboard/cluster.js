// The cluster: its nodes, the links with them, and how one is forgotten.

import { ask, isAdmin, part } from "./api.js";
import { isSure, lasting, number, refill, short, table, text, tile } from "./shown.js";

const LEASE_DOUBT_MS = 3_000;
const STATES = { own: ["this node", "good"], up: ["up", "good"], down: ["down", "bad"], stand_in: ["stand-in", "bad"], away: ["away", "doubt"] };
const COPIES = { none: ["none", "bad"], filling: ["not whole", "doubt"], whole: ["whole", "good"], ending: ["ends", "bad"] };

/** Whether the page of the cluster is to be found: a broker that is for itself has none. */
export async function look() {
  const { cluster } = await ask("cluster");
  id("cluster-link").hidden = !cluster;
}

const say = (words, kind = "soft") => { id("cluster-said").className = kind; id("cluster-said").textContent = words; };

export async function showCluster(_wanted, isCurrent) {
  say("");
  await showState(isCurrent);
}

/** How it is now. */
export async function showState(isCurrent) {
  const { cluster } = await ask("cluster");
  if (!isCurrent()) return;
  if (!cluster) return say("This broker is no node of a cluster.");
  const { name, node, nodes, fenced, minority, lease_ms, fences, nodes_lost, copies, copies_failed, kept } = cluster;
  const words = `cluster ${name}, seen by node ${node}`;
  if (id("cluster-name").textContent !== words) id("cluster-name").textContent = words;
  fill(id("cluster-facts"), [
    tile("members", count(nodes.filter((of) => !["away", "stand_in"].includes(of.state)).length), `of ${nodes.length} places`),
    tile("may act for", minority ? "minority" : fenced ? "fenced" : (lease_ms / 1000).toFixed(1) + " s", minority ? "serves clients without a kept session by itself" : fenced ? "lets nobody in" : "", fenced ? "bad" : lease_ms < LEASE_DOUBT_MS ? "doubt" : "good"),
    tile("fenced", count(fences), "times", fences ? "doubt" : ""),
    tile("nodes lost", count(nodes_lost), "since the start"),
    ...copies.flatMap(copied),
    ...(copies_failed ? [tile("copies failed", count(copies_failed), "times", "doubt")] : []),
    ...keeping(kept),
  ]);
  const hasCopies = nodes.some((of) => of.copy);
  refill(id("cluster-nodes"), [table("Nodes", [text("node"), short("state"), ...(hasCopies ? [short("copy of its log")] : []), number("slot"), short("shards"), short("letters"), short("address")], nodes.map((of) => [
    of.name, state(of), ...(hasCopies ? [keeper(of)] : []), of.slot, `${of.first_shard} to ${of.first_shard + of.shards - 1}`, of.letters === null ? "-" : "version " + of.letters, where(of),
  ]))]);
  offer(nodes.filter((of) => of.state === "away").map((of) => of.name));
  const linked = nodes.filter((of) => of.link);
  refill(id("cluster-links"), linked.length ? [table("Links", [text("node"), number("waiting"), number("bytes waiting"), number("letters out"), number("letters in"), number("bytes out"), number("bytes in"), number("resent"), number("doubles"), number("dropped"), number("resets")],
    linked.map(({ name, link: of }) => [name, count(of.waiting_letters), bytes(of.waiting_bytes), count(of.letters_out), count(of.letters_in), bytes(of.bytes_out), bytes(of.bytes_in),
      count(of.resent), count(of.doubles), count(of.dropped + of.too_long), count(of.resets)]))] : [make("p", "No other node is a member.", "soft")]);
}

function state(of) {
  const [words, kind] = STATES[of.state] ?? [of.state, ""];
  return make("span", `${words}, ${lasting(of.state_s)}`, kind);
}

// A copy of this node's log.
function copied(of) {
  const [words, kind] = COPIES[of.state] ?? [of.state, ""];
  return [
    tile("copy of this log", words, `${of.keeper ? (of.state === "filling" ? "to " : "at ") + of.keeper + ", " : ""}for ${lasting(of.state_s)}`, kind),
    tile("on the way there", count(of.waiting_records), `records, ${bytes(of.waiting_bytes)}`),
  ];
}

// What this node has of others, if it has had anything.
function keeping(of) {
  if (!of || !(of.logs || of.opened || of.failed)) return [];
  return [
    tile("copies here", count(of.logs), `logs, ${bytes(of.disk_bytes)}`),
    tile("copies opened", count(of.opened), of.failed ? `${count(of.failed)} not served` : "of lost nodes", of.failed ? "bad" : of.opened ? "doubt" : ""),
  ];
}

function keeper({ copy }) {
  if (!copy) return "-";
  if (copy.state === "void") return make("span", "void, opened", "doubt");
  const { state, keepers } = copy;
  if (!keepers.length) return make("span", "none", "bad");
  return state === "opened" ? make("span", "opened by " + keepers[0], "doubt") : "at " + keepers.join(", ");
}

function where(of) {
  return of.unresolved ? make("span", `${of.address} does not resolve: ${of.unresolved}`, "bad") : of.address ?? "-";
}

// Buttons stay where they are while nothing changes: one may have the focus.
function offer(names) {
  const wanted = JSON.stringify([names, isAdmin()]), place = id("cluster-away");
  if (place.dataset.shown === wanted) return;
  place.dataset.shown = wanted;
  fill(place, names.map((name) => {
    const of = make("button", "Forget " + name, "danger");
    of.type = "button";
    of.disabled = !isAdmin();
    of.onclick = () => forget(name);
    return of;
  }));
  const help = "A node that is away keeps its slot and the numbers of its shards. One that will not come back can be forgotten";
  id("cluster-help").textContent = names.length ? help + (isAdmin() ? "." : ", by an admin.") : "";
}

async function forget(name) {
  if (!await isSure(`Forget the node ${name}?`, "Its slot and the numbers of its shards are free then. If it comes back, it gets others.", "Forget")) return;
  await ask("cluster/nodes/" + part(name), { method: "DELETE" }).then(() => say(`The place of ${name} is free.`, "good"), (problem) => say(problem.message, "bad"));
  await showState(() => true);
}
