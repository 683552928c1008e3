// Somebody in front of a page of a broker, by clicks and keys alone.

import { evaluate, inChromium, until } from "./chromium.mjs";
import { VIEWS, inspect, picture, screen, watch } from "./sound.mjs";

export const COME_MS = 120_000;

// What was done has come about: another view is shown, and drawn.
export const settle = (client) => evaluate(client, "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");

// Somebody in front of the page.
export const person = (client) => {
  const find = (selector, text) => `[...document.querySelectorAll(${JSON.stringify(selector)})].find((of) => of.checkVisibility() && (${JSON.stringify(text ?? "")} === "" || of.textContent.trim() === ${JSON.stringify(text ?? "")}))`;
  const come = (selector, text) => until(() => evaluate(client, `!!(${find(selector, text)})`), COME_MS, selector + " " + (text ?? ""));
  const me = {
    come,
    read: (selector) => come(selector).then(() => evaluate(client, `document.querySelector(${JSON.stringify(selector)}).textContent`)),
    until: (expression, name) => until(() => evaluate(client, expression), COME_MS, name),
    // Whoever misses what they aim at, since it was drawn anew just then, clicks again.
    click: (selector, text) => until(async () => {
      const at = await evaluate(client, `(() => { const of = ${find(selector, text)}; if (!of) return null; window.isHit = false; of.addEventListener("click", () => { window.isHit = true; }, { once: true, capture: true });
        of.scrollIntoView({ block: "center" }); const { x, y, width, height } = of.getBoundingClientRect(); return { x: x + width / 2, y: y + height / 2 }; })()`);
      if (!at) return false;
      for (const type of ["mousePressed", "mouseReleased"]) await client.Input.dispatchMouseEvent({ type, ...at, button: "left", clickCount: 1 });
      await settle(client);
      return evaluate(client, "window.isHit");
    }, COME_MS, selector + " " + (text ?? "")),
    async write(selector, text) {
      await me.click(selector);
      await evaluate(client, `document.querySelector(${JSON.stringify(selector)}).select()`);
      await client.Input.insertText({ text });
    },
    // The keyboard chooses what begins so.
    async choose(selector, text) {
      await come(selector);
      await evaluate(client, `document.querySelector(${JSON.stringify(selector)}).focus()`);
      for (const key of text) await client.Input.dispatchKeyEvent({ type: "char", text: key });
      await me.until(`document.querySelector(${JSON.stringify(selector)}).selectedOptions[0].text === ${JSON.stringify(text)}`, text);
    },
    // Whether a box is ticked after it.
    async tick(selector, isTicked) {
      if (await evaluate(client, `document.querySelector(${JSON.stringify(selector)}).checked`) !== isTicked) await me.click(selector);
    },
    async enter() {
      for (const type of ["keyDown", "keyUp"]) await client.Input.dispatchKeyEvent({ type, key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: type === "keyDown" ? "\r" : undefined });
      await settle(client);
    },
    async find(clientId) {
      await me.click("#views a", "Clients");
      await me.write("#find-id", clientId);
      await me.enter();
      await me.click("#client-list a", clientId);
    },
    async publish(topic, payload, qos) {
      await me.click("#views a", "Publish");
      await me.write("#topic", topic);
      await me.write("#payload", payload);
      await me.choose("#qos", qos);
      await me.tick("#retain", false);
      await evaluate(client, "id('published').textContent = ''");
      await me.click("#send");
      await me.come("#published.good");
    },
    // Puts other rights of the user who is shown.
    async permit(name, rules) {
      await me.come("#h-rights", "Rights of " + name);
      await me.write("#rights", rules);
      await me.click("#rights-put");
      await me.come("#user-state", `The rights of ${name} are these now.`);
    },
    async logIn(token) {
      await me.write("#token", token);
      await me.enter();
    },
  };
  return me;
};

// Looks at what is shown now on every screen, and keeps pictures of it if there is a folder for them.
export const onScreens = async (client, name, faults, pictures) => {
  for (const view of VIEWS) {
    await screen(client, view);
    // Charts follow their width.
    await settle(client);
    await inspect(client, view, (what) => faults.push(`${name}, ${view.name}: ${what}`));
    if (pictures) await picture(client, view, pictures, name + "-" + view.name);
  }
  await screen(client, VIEWS[0]);
};

// Has somebody in front of the page at `url` do what `use` does, and prints what is wrong with it and what was read off it. `name` is that of the program whose options those are.
export const visit = async (name, url, options, { faults, seen }, use, isExpected) => {
  try {
    await inChromium(options.browser, [], async (client) => {
      await watch(client, faults, (asked) => asked.startsWith(url) || asked === options.websocket, isExpected);
      await screen(client, VIEWS[0]);
      const loaded = client.Page.loadEventFired();
      await client.Page.navigate({ url });
      await loaded;
      await use(client, person(client));
    });
  } catch (error) {
    faults.push(name + ": " + error.stack);
  }
  console.log(JSON.stringify({ faults, seen }, null, 2));
};
