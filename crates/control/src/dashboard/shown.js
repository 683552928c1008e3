// What several views show alike.

import { isAdmin, query } from "./api.js";

/** A table in a region that scrolls; `rows` are lists of cells: texts, numbers or elements. */
export function table(name, heads, rows) {
  const region = make("div", undefined, "card"), of = make("table"), top = make("thead"), body = make("tbody"), head = make("tr");
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", name);
  const kind = (at) => heads[at].isNumber ? "" : heads[at].isShort ? "short" : "text";
  for (const [at, { text }] of heads.entries()) {
    const cell = make("th", text, kind(at));
    cell.scope = "col";
    head.append(cell);
  }
  top.append(head);
  for (const cells of rows) {
    const line = make("tr");
    cells.forEach((cell, at) => {
      const place = make(at ? "td" : "th", undefined, kind(at));
      if (!at) place.scope = "row";
      place.append(cell);
      line.append(place);
    });
    body.append(line);
  }
  of.append(top, body);
  region.append(of);
  return region;
}
/** Changes what is in the regions and leaves these where they are: one may have the focus, or be scrolled. */
export function refill(place, blocks) {
  const region = (of) => of?.matches("[role=region]") ? of : of?.querySelector("[role=region]");
  blocks.forEach((block, at) => {
    const old = place.children[at], isSame = region(old) && region(old).ariaLabel === region(block)?.ariaLabel;
    if (isSame) region(old).replaceChildren(...region(block).childNodes);
    else if (old) old.replaceWith(block);
    else place.append(block);
  });
  while (place.children.length > blocks.length) place.lastChild.remove();
}

/** How long that is, roughly. */
export const lasting = (s) => s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172_800 ? Math.round(s / 3600) + " h" : Math.round(s / 86_400) + " days";

export const text = (name) => ({ text: name }), short = (name) => ({ text: name, isShort: true }), number = (name) => ({ text: name, isNumber: true });

export function tile(name, value, beside = "", kind = "") {
  const box = make("div"), dd = make("dd", value + " ", kind);
  if (beside) dd.append(make("small", beside));
  box.append(make("dt", name), dd);
  return box;
}

export function link(name, href) {
  const of = make("a", name);
  of.href = href;
  return of;
}

/** What only an admin may do: else the buttons stand still, and `help` says why. */
export function forAdmins(buttons, help, what) {
  for (const button of buttons) button.disabled = !isAdmin();
  help.textContent = isAdmin() ? what : "This token is a viewer's: it may look and change nothing. An admin's may.";
}

/** Whether whoever is asked is sure. */
export function isSure(what, why, yes) {
  const box = id("sure");
  id("sure-what").textContent = what;
  id("sure-why").textContent = why;
  id("sure-yes").textContent = yes;
  return new Promise((done) => {
    let answer = false;
    id("sure-yes").onclick = () => { answer = true; box.close(); };
    id("sure-no").onclick = () => box.close();
    box.onclose = () => done(answer);
    box.showModal();
    id("sure-no").focus();
  });
}

/** Links to the first and the next page of a list that goes on behind a cursor. */
export function pages(place, view, { cursor: here, ...first }, cursor, next) {
  const to = (values) => "#" + view + query(values);
  fill(place, [...(here ? [link("First page", to(first))] : []), ...(cursor === null ? [] : [link(next, to({ ...first, cursor }))])]);
}
