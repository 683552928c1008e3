// Asks the broker, with the token of this tab.

const TOKEN = "weir-token", ANSWER_MS = 15_000;

/** What this tab knows of who uses it. */
export const visitor = { name: null, role: null };

export const token = () => sessionStorage.getItem(TOKEN);
export const keepToken = (text) => text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN);
export const isAdmin = () => visitor.role === "admin";

/** Why there is no answer. The status is 0 where nobody answered. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const send = (path, method, body) => fetch("api/v1/" + path, {
  method,
  headers: { Authorization: "Bearer " + token(), ...(body === undefined ? {} : { "Content-Type": typeof body === "string" ? "text/plain" : "application/json" }) },
  body: typeof body === "string" ? body : body && JSON.stringify(body),
  cache: "no-store",
  signal: AbortSignal.timeout(ANSWER_MS),
});

const SAID = {
  429: "The broker takes 100 requests a second of a token, and this one is used more often.",
  503: "The broker is too busy to answer now.",
  504: "The broker did not answer in time; it may be very busy.",
};

/** What is at `path`, as text if that is wanted; null where the answer has no body. Whoever gets a 401 is shown the login. */
export async function ask(path, { method = "GET", body, isText = false } = {}) {
  // Whoever has just logged out asks nothing more.
  if (!token()) throw new Problem(401, "This tab has no token.");
  let response;
  try {
    // A connection that was kept too long may break just now: whoever only looks asks once more.
    response = await send(path, method, body).catch((error) => {
      if (method === "GET" && error.name === "TypeError") return send(path, method, body);
      throw error;
    });
  } catch {
    throw new Problem(0, "The broker is out of reach.");
  }
  const text = await response.text().catch(() => "");
  if (response.ok && isText) return text;
  let json = null;
  try { json = JSON.parse(text); } catch { /* No body, or a proxy's. */ }
  if (response.ok) return json;
  const problem = new Problem(response.status, SAID[response.status] ?? json?.error ?? `The answer was ${response.status}.`);
  if (problem.status === 401) dispatchEvent(new CustomEvent("weir-unknown"));
  throw problem;
}

/** A path's part, and a query without what is empty. */
export const part = encodeURIComponent;
export const query = (values) => {
  const left = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return left.length ? "?" + new URLSearchParams(left) : "";
};
