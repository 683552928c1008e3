"""gmqtt (Python, asyncio) runs the cells of ../README.md against a broker. It has no WebSocket.

Usage: matrix.py URL [CAFILE]. Prints a line a cell; the exit code says whether all passed.
"""

import asyncio
import logging
import ssl
import sys
from urllib.parse import urlsplit

from gmqtt import Client, Message, Subscription
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from gmqtt.storage import HeapPersistentStorage

URL = urlsplit(sys.argv[1])
TLS = ssl.create_default_context(cafile=sys.argv[2]) if URL.scheme == "mqtts" else False
WAIT_S = 20
V311, V5 = MQTTv311, MQTTv50


def within(awaitable):
    return asyncio.wait_for(awaitable, WAIT_S)


class Peer:
    """A client whose messages and acknowledgements can be waited for."""

    def __init__(self, client_id, version, clean=True, expiry_s=0, will=None, **connect):
        self.version = version
        self.messages, self.granted = asyncio.Queue(), asyncio.Queue()
        self.gone, self.session_present = asyncio.Event(), None
        # Holds what is published at QoS 1 and 2 until it is acknowledged.
        self.unacknowledged = HeapPersistentStorage()
        if version == V5:
            connect["session_expiry_interval"] = expiry_s
        self.client = Client(
            f"gmqtt-{version}-{client_id}",
            clean_session=clean,
            will_message=Message(*will) if will else None,
            persistent_storage=self.unacknowledged,
            **connect,
        )
        # Nobody comes back by himself: -1 would be for ever, 0 once.
        self.client.set_config({"reconnect_retries": -2})
        self.client.on_connect = self.on_connect
        self.client.on_message = self.on_message
        self.client.on_subscribe = lambda _c, _m, codes, _p: self.granted.put_nowait(codes)
        self.client.on_disconnect = lambda *_: self.gone.set()

    def on_connect(self, _client, session_present, _code, _properties):
        self.session_present = bool(session_present)

    def on_message(self, _client, topic, payload, qos, properties):
        self.messages.put_nowait((topic, payload.decode(), qos, properties))
        return 0

    async def join(self):
        connected = self.client.connect(
            URL.hostname, URL.port, ssl=TLS, version=self.version, keepalive=30
        )
        await within(connected)
        return self

    async def subscribe(self, topic, qos=0, identifier=None):
        self.client.subscribe(Subscription(topic, qos, subscription_identifier=identifier))
        codes = await within(self.granted.get())
        assert codes[0] < 128, codes

    async def publish(self, topic, payload, qos=0, retain=False, **properties):
        self.client.publish(Message(topic, payload, qos, retain, **properties))
        await self.acknowledged()

    async def acknowledged(self):
        # It is put into the storage by a task of its own.
        await asyncio.sleep(0)
        await within(self.unacknowledged.wait_empty())

    async def get(self):
        topic, payload, qos, properties = await within(self.messages.get())
        return topic, payload, qos, bool(properties["retain"])

    async def leave(self):
        try:
            await within(self.client.disconnect())
        except ssl.SSLError as error:
            # asyncio makes an error of what was on its way when this side had closed.
            if error.reason != "APPLICATION_DATA_AFTER_CLOSE_NOTIFY":
                raise

    def cut(self):
        """Ends the connection without DISCONNECT; gmqtt has no public way to."""
        self.client._connection._transport.abort()


async def leave(*peers):
    for peer in peers:
        await peer.leave()


async def qos(version, root):
    sub, pub = await Peer("sub", version).join(), await Peer("pub", version).join()
    for granted in (0, 1, 2):
        topic = f"{root}/{granted}"
        await sub.subscribe(topic, granted)
        for sent in (0, 1, 2):
            await pub.publish(topic, f"{sent}", sent)
            assert await sub.get() == (topic, f"{sent}", min(sent, granted), False)
    await leave(sub, pub)


async def order(version, root):
    sub, pub = await Peer("sub", version).join(), await Peer("pub", version).join()
    await sub.subscribe(root, 2)
    for number in range(300):
        pub.client.publish(Message(root, str(number), number % 3))
        # gmqtt heeds no Receive Maximum: more than 20 in flight are too many for some brokers.
        if number % 15 == 0:
            await pub.acknowledged()
    got = [await sub.get() for _ in range(300)]
    for level in (0, 1, 2):
        assert [int(m[1]) for m in got if m[2] == level] == list(range(level, 300, 3))
    await pub.acknowledged()
    await leave(sub, pub)


async def retained(version, root):
    pub = await Peer("pub", version).join()
    await pub.publish(f"{root}/1", "v", 1, retain=True)
    sub = await Peer("sub", version).join()
    await sub.subscribe(f"{root}/+", 1)
    assert await sub.get() == (f"{root}/1", "v", 1, True)
    await pub.publish(f"{root}/1", "", 1, retain=True)
    assert (await sub.get())[1:] == ("", 1, False)
    late = await Peer("late", version).join()
    await late.subscribe(f"{root}/+", 1)
    await pub.publish(f"{root}/mark", "m", 1)
    assert (await late.get())[0] == f"{root}/mark", "the retained message was cleared"
    await leave(pub, sub, late)


async def will(version, root):
    watcher = await Peer("watcher", version).join()
    await watcher.subscribe(f"{root}/#", 1)
    polite = await Peer("polite", version, will=(f"{root}/polite", "gone", 1, False)).join()
    await polite.leave()
    victim = await Peer("victim", version, will=(f"{root}/victim", "gone", 1, False)).join()
    victim.cut()
    assert await watcher.get() == (f"{root}/victim", "gone", 1, False)
    await leave(watcher)


async def resume(version, root):
    pub = await Peer("pub", version).join()
    sub = await Peer("sleeper", version, clean=False, expiry_s=60).join()
    await sub.subscribe(f"{root}/#", 2)
    await sub.leave()
    for level in (1, 2):
        await pub.publish(f"{root}/{level}", "kept", level)
    back = await Peer("sleeper", version, clean=False, expiry_s=60).join()
    assert back.session_present
    got = [(await back.get())[:3] for _ in (1, 2)]
    assert got == [(f"{root}/{level}", "kept", level) for level in (1, 2)], got
    await back.leave()
    fresh = await Peer("sleeper", version, clean=True).join()
    assert not fresh.session_present
    await leave(fresh, pub)


async def shared(version, root):
    members, jobs = [await Peer(f"m{i}", version).join() for i in range(3)], asyncio.Queue()
    for member in members:
        member.messages = jobs
        await member.subscribe(f"$share/group/{root}/job", 1)
        await member.subscribe(f"{root}/end", 1)
    pub = await Peer("pub", version).join()
    for number in range(30):
        await pub.publish(f"{root}/job", str(number), 1)
    got = [(await within(jobs.get()))[1] for _ in range(30)]
    assert sorted(map(int, got)) == list(range(30))
    await pub.publish(f"{root}/end", "e", 1)
    assert [(await within(jobs.get()))[1] for _ in members] == ["e"] * 3, "each once"
    await leave(pub, *members)


async def takeover(version, _root):
    first = await Peer("twin", version).join()
    second = await Peer("twin", version).join()
    await within(first.gone.wait())
    await leave(second)


async def aliases(version, root):
    sub = await Peer("sub", version, topic_alias_maximum=5).join()
    pub = await Peer("pub", version).join()
    await sub.subscribe(f"{root}/#", 1)
    await pub.publish(f"{root}/a", "1", 1, topic_alias=1)
    await pub.publish(f"{root}/b", "2", 0, topic_alias=2)
    await pub.publish("", "3", 1, topic_alias=1)
    await pub.publish("", "4", 0, topic_alias=2)
    await pub.publish(f"{root}/c", "5", 1, topic_alias=1)
    await pub.publish("", "6", 1, topic_alias=1)
    got = sorted([(await sub.get())[1::-1] for _ in range(6)])
    assert got == [(str(n), f"{root}/{t}") for n, t in enumerate("ababcc", 1)], got
    await leave(sub, pub)


async def properties(version, root):
    sub, pub = await Peer("sub", version).join(), await Peer("pub", version).join()
    await sub.subscribe(f"{root}/#", 1, identifier=77)
    user = [("b", "1"), ("a", "2"), ("b", "3")]
    await pub.publish(
        f"{root}/x",
        "v",
        1,
        user_property=user,
        response_topic="reply/to",
        correlation_data=b"\x00\x01",
        content_type="text/plain",
        payload_format_id=1,
        message_expiry_interval=100,
    )
    got = (await within(sub.messages.get()))[3]
    assert got["user_property"] == user, got
    assert got["response_topic"] == ["reply/to"]
    assert got["correlation_data"] == [b"\x00\x01"]
    assert got["content_type"] == ["text/plain"]
    assert got["payload_format_id"] == [1]
    assert got["subscription_identifier"] == [77]
    assert 0 < got["message_expiry_interval"][0] <= 100
    await leave(sub, pub)


async def expiry(version, root):
    kept = await Peer("kept", version, clean=False, expiry_s=60).join()
    await kept.subscribe(f"{root}/#", 1)
    await kept.leave()
    await (await Peer("short", version, clean=False, expiry_s=1).join()).leave()
    pub = await Peer("pub", version).join()
    await pub.publish(f"{root}/short", "expired", 1, message_expiry_interval=1)
    await pub.publish(f"{root}/long", "there", 1, message_expiry_interval=60)
    # No event tells that time has passed.
    await asyncio.sleep(2.5)
    back = await Peer("kept", version, clean=False, expiry_s=0).join()
    assert back.session_present
    topic, _, _, got = await within(back.messages.get())
    assert topic == f"{root}/long", topic
    assert got["message_expiry_interval"][0] <= 58
    gone = await Peer("short", version, clean=False, expiry_s=0).join()
    assert not gone.session_present, "its session has expired"
    await leave(back, gone, pub)


BOTH = [qos, order, retained, will, resume, shared, takeover]
ONLY_5 = [aliases, properties, expiry]


async def main():
    # The library's own log is about what the cells provoke.
    logging.disable()
    failed = 0
    for name, version, cells in (("3.1.1", V311, BOTH), ("5.0", V5, BOTH + ONLY_5)):
        for cell in cells:
            cell_name = f"{name}/{cell.__name__}"
            try:
                await cell(version, f"gmqtt/{cell_name}")
                print(f"ok {cell_name}", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAIL {cell_name} {error!r}", flush=True)
    return 1 if failed else 0


sys.exit(asyncio.run(main()))
