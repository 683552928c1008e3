// Chromium without a window, for the length of one function.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import CDP from "chrome-remote-interface";

const START_MS = 30_000, LOOK_EVERY_MS = 50;

// Waits for something that no event tells.
export const until = async (what, ms, name) => {
  const end = Date.now() + ms;
  for (;;) {
    const found = await what();
    if (found) return found;
    if (Date.now() > end) throw new Error(name + " did not come within " + ms + " ms");
    await pause(LOOK_EVERY_MS);
  }
};

export const evaluate = async (client, expression) => {
  const { result, exceptionDetails } = await client.Runtime.evaluate({ expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
  return result.value;
};

// Has `use` work with a page of the browser, and ends the browser whatever comes of it.
export const inChromium = async (program, more, use) => {
  const folder = mkdtempSync(join(tmpdir(), "weir-browser-"));
  const browser = spawn(program, [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars", "--remote-debugging-port=0", "--user-data-dir=" + folder, ...more, "about:blank",
  ], { stdio: "ignore" });
  const gone = new Promise((done) => browser.once("exit", done));
  browser.once("error", (error) => {
    console.error("cannot start " + program + ": " + error.message);
    process.exit(2);
  });
  try {
    const file = join(folder, "DevToolsActivePort");
    const port = await until(() => existsSync(file) && Number(readFileSync(file, "utf8").split("\n")[0]), START_MS, "the browser");
    const client = await CDP({ port });
    await use(client);
    await client.Browser.close();
  } catch (error) {
    browser.kill("SIGKILL");
    throw error;
  } finally {
    await gone;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};
