// Users of the password file, and what each may do.

import { ask, isAdmin, part, query } from "./api.js";
import { forAdmins, isSure, link, short, table } from "./shown.js";

const say = (words, kind = "soft") => { id("user-state").className = kind; id("user-state").textContent = words; };
const again = () => dispatchEvent(new HashChangeEvent("hashchange"));

export async function showUsers(wanted, isCurrent) {
  forAdmins([id("user-put"), id("rights-put"), id("user-remove")], id("user-help"), "A new user, or another password for one. It holds at once.");
  id("rights-form").hidden = true;
  const { users } = await ask("users");
  if (!isCurrent()) return;
  fill(id("user-list"), users.length ? [table("Users of the password file", [short("user")], users.map((name) => [link(name, "#users" + query({ name }))]))] : [make("p", "There are no users.", "soft")]);
  if (wanted.name) await showRights(wanted.name, isCurrent);
}

async function showRights(name, isCurrent) {
  const [rules, lack] = await ask(`users/${part(name)}/rights`, { isText: true }).then((text) => [text, ""], (problem) => {
    if (problem.status === 404) return ["", "there is no rule yet: only what a pattern permits is permitted"];
    if (problem.status === 409) return [null, "the configuration has no auth.acl_file: users may do everything"];
    throw problem;
  });
  if (!isCurrent()) return;
  id("rights-form").hidden = false;
  id("h-rights").textContent = `Rights of ${name}`;
  id("rights").value = rules ?? "";
  id("rights").disabled = rules === null;
  id("rights").placeholder = lack;
  id("rights-put").disabled = rules === null || !isAdmin();
  id("rights-form").onsubmit = async (event) => {
    event.preventDefault();
    await ask(`users/${part(name)}/rights`, { method: "PUT", body: id("rights").value }).then(() => say(`The rights of ${name} are these now.`, "good"), (problem) => say(problem.message, "bad"));
  };
  id("user-remove").onclick = async () => {
    if (!await isSure("Take the user out?", `${name} cannot come in any more, and is disconnected.`, "Take out")) return;
    await ask("users/" + part(name), { method: "DELETE" }).then(() => { say(`${name} is no user any more.`, "good"); location.hash = "#users"; }, (problem) => say(problem.message, "bad"));
  };
}

id("user-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!isAdmin()) return;
  const name = id("user-name").value, body = { password: id("user-password").value };
  try {
    const { was_there } = await ask("users/" + part(name), { method: "PUT", body });
    id("user-form").reset();
    say(was_there ? `${name} has another password now.` : `${name} is a user now.`, "good");
    again();
  } catch (problem) {
    say(problem.message, "bad");
  }
});
