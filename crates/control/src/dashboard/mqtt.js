// A small client of MQTT 3.1.1 over WebSocket: QoS 0 and 1, no session. It is for a person who tries
// something, so it keeps nothing and comes back only when it is told to.

const PING_MS = 30_000, ANSWER_MS = 10_000, REMAINING_MAX = 1 << 28;
const CONNACK = 2, PUBLISH = 3, PUBACK = 4, SUBACK = 9, PINGRESP = 13;
const REFUSED = ["", "the protocol's version", "the client identifier", "the broker is not available", "the user or the password", "it may not connect"];

const utf8 = new TextEncoder(), fromUtf8 = new TextDecoder("utf-8", { fatal: true });

const word = (number) => [number >> 8, number & 255];
const string = (text) => {
  const bytes = utf8.encode(text);
  return [...word(bytes.length), ...bytes];
};

/** A packet of this first byte. */
export function packet(first, ...parts) {
  const body = parts.flatMap((part) => [...part]), length = [];
  let rest = body.length;
  do {
    length.push(rest % 128 + (rest > 127 ? 128 : 0));
    rest = Math.floor(rest / 128);
  } while (rest);
  return new Uint8Array([first, ...length, ...body]);
}

/** The first packet of `bytes`, and what is behind it; nothing if not all of it is there. */
export function first(bytes) {
  let length = 0, scale = 1, at = 1, byte;
  do {
    if (at >= bytes.length) return null;
    byte = bytes[at++];
    length += (byte & 127) * scale;
    scale *= 128;
    if (scale > REMAINING_MAX && byte > 127) throw new Error("a length of five bytes");
  } while (byte > 127);
  if (bytes.length < at + length) return null;
  return { kind: bytes[0] >> 4, flags: bytes[0] & 15, body: bytes.subarray(at, at + length), rest: bytes.subarray(at + length) };
}

const topicOf = (body) => {
  const length = body[0] * 256 + body[1];
  return { topic: fromUtf8.decode(body.subarray(2, 2 + length)), at: 2 + length };
};
const idOf = (body, at = 0) => body[at] * 256 + body[at + 1];

export class Client {
  #socket; #bytes = new Uint8Array(); #waiting = new Map(); #next = 0; #ping = null; #connected = null;

  /** `tell.message({ topic, payload, qos, retain })` and, once, `tell.ended(why)`. */
  constructor(url, { id, user, password }, tell) {
    this.tell = tell;
    this.ready = new Promise((done, fail) => { this.#connected = { done, fail }; });
    // Who waits for nothing hears of the end by `ended`.
    this.ready.catch(() => {});
    this.#socket = new WebSocket(url, ["mqtt"]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onopen = () => {
      const flags = 2 | (user ? 128 : 0) | (user && password ? 64 : 0);
      this.#send(packet(0x10, string("MQTT"), [4, flags], word(2 * PING_MS / 1000), string(id), user ? string(user) : [], user && password ? string(password) : []));
    };
    this.#socket.onmessage = ({ data }) => this.#received(new Uint8Array(data));
    this.#socket.onclose = ({ reason }) => this.#end(reason || "the connection has ended, or could not be made");
    setTimeout(() => this.#connected && this.#end("nobody has answered"), ANSWER_MS);
  }

  /** Is over when the broker has said that it takes the filter. */
  subscribe(filter, qos) {
    const id = this.#id(), granted = this.#answer(id);
    this.#send(packet(0x82, word(id), string(filter), [qos]));
    return granted.then((code) => { if (code > 2) throw new Error("the broker refuses the filter"); });
  }

  /** Is over when the broker has the message, as far as its QoS says. */
  publish(topic, payload, qos, retain) {
    const id = qos ? this.#id() : 0, taken = qos ? this.#answer(id) : Promise.resolve();
    this.#send(packet(0x30 | qos << 1 | (retain ? 1 : 0), string(topic), qos ? word(id) : [], utf8.encode(payload)));
    return taken;
  }

  close() {
    if (this.#socket.readyState === WebSocket.OPEN) this.#send(packet(0xE0));
    this.#end("disconnected");
  }

  #id() {
    do this.#next = this.#next % 65_535 + 1; while (this.#waiting.has(this.#next));
    return this.#next;
  }

  #answer(id) {
    return new Promise((done, fail) => this.#waiting.set(id, { done, fail }));
  }

  #send(bytes) { this.#socket.send(bytes); }

  #received(more) {
    const all = new Uint8Array(this.#bytes.length + more.length);
    all.set(this.#bytes);
    all.set(more, this.#bytes.length);
    this.#bytes = all;
    try {
      for (let one; (one = first(this.#bytes)); this.#bytes = one.rest) this.#take(one);
    } catch (error) {
      this.#end(`what the broker sent cannot be read: ${error.message}`);
    }
  }

  #take({ kind, flags, body }) {
    if (kind === CONNACK) {
      if (body[1]) return this.#end(`refused: ${REFUSED[body[1]] ?? body[1]}`);
      this.#connected?.done();
      this.#connected = null;
      this.#ping = setInterval(() => this.#send(packet(0xC0)), PING_MS);
    } else if (kind === PUBLISH) {
      const qos = flags >> 1 & 3, { topic, at } = topicOf(body), payload = body.subarray(at + (qos ? 2 : 0));
      if (qos === 1) this.#send(packet(0x40, word(idOf(body, at))));
      this.tell.message({ topic, payload, qos, retain: (flags & 1) === 1 });
    } else if (kind === PUBACK || kind === SUBACK) {
      this.#waiting.get(idOf(body))?.done(body[2]);
      this.#waiting.delete(idOf(body));
    } else if (kind !== PINGRESP) {
      throw new Error(`a packet of kind ${kind}`);
    }
  }

  #end(why) {
    if (!this.tell) return;
    const { ended } = this.tell, error = new Error(why);
    this.tell = null;
    clearInterval(this.#ping);
    this.#connected?.fail(error);
    this.#connected = null;
    this.#waiting.forEach(({ fail }) => fail(error));
    this.#socket.onmessage = null;
    this.#socket.close();
    ended(why);
  }
}
