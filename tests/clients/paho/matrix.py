"""Python's paho runs the cells of ../README.md against a broker.

Usage: matrix.py URL [CAFILE]. Prints a line a cell; the exit code says whether all passed.
"""

import os
import queue
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

URL = urlsplit(sys.argv[1])
IS_TLS, IS_WEBSOCKET = URL.scheme in ("mqtts", "wss"), URL.scheme in ("ws", "wss")
WAIT_S = 20
V311, V5 = mqtt.MQTTv311, mqtt.MQTTv5


class Peer:
    """A client whose messages and acknowledgements can be waited for."""

    def __init__(self, client_id, version, clean=True, expiry_s=0, will=None):
        self.messages, self.granted = queue.Queue(), queue.Queue()
        self.connected, self.gone = queue.Queue(), queue.Queue()
        kwargs = {} if version == V5 else {"clean_session": clean}
        client_id = f"paho-{version}-{client_id}"
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=version,
            transport="websockets" if IS_WEBSOCKET else "tcp",
            **kwargs,
        )
        if IS_TLS:
            self.client.tls_set(sys.argv[2])
        self.client.on_connect = lambda _c, _u, flags, reason, _p: self.connected.put((flags, reason))
        self.client.on_message = lambda _c, _u, message: self.messages.put(message)
        self.client.on_subscribe = lambda _c, _u, _m, reasons, _p: self.granted.put(reasons)
        self.client.on_disconnect = lambda _c, _u, _f, reason, _p: self.gone.put(reason)
        # Nobody comes back by himself.
        self.client.reconnect_delay_set(1000, 1000)
        if will:
            self.client.will_set(*will)
        kwargs = {}
        if version == V5:
            connect = Properties(PacketTypes.CONNECT)
            connect.SessionExpiryInterval = expiry_s
            kwargs = {"clean_start": clean, "properties": connect}
        self.client.connect(URL.hostname, URL.port, keepalive=30, **kwargs)
        self.client.loop_start()
        flags, reason = self.connected.get(timeout=WAIT_S)
        assert not reason.is_failure, reason
        self.session_present = flags.session_present

    def subscribe(self, topic, qos=0, **kwargs):
        self.client.subscribe(topic, **({"qos": qos} if not kwargs else {}), **kwargs)
        reasons = self.granted.get(timeout=WAIT_S)
        assert not reasons[0].is_failure, reasons

    def publish(self, topic, payload, qos=0, retain=False, **properties):
        info = self.client.publish(topic, payload, qos, retain, publish_properties(properties))
        info.wait_for_publish(timeout=WAIT_S)
        assert info.is_published()

    def get(self):
        message = self.messages.get(timeout=WAIT_S)
        return message.topic, message.payload.decode(), message.qos, message.retain

    def leave(self):
        self.client.disconnect()
        self.client.loop_stop()

    def cut(self):
        """Ends the connection without DISCONNECT."""
        of_client = self.client.socket()
        # paho has no public way to the socket below WebSocket.
        getattr(of_client, "_socket", of_client).shutdown(socket.SHUT_RDWR)
        threading.Thread(target=self.client.loop_stop, daemon=True).start()


def publish_properties(given):
    if not given:
        return None
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in given.items():
        setattr(properties, name, value)
    return properties


def qos(version, root):
    sub, pub = Peer("sub", version), Peer("pub", version)
    for granted in (0, 1, 2):
        topic = f"{root}/{granted}"
        sub.subscribe(topic, granted)
        for sent in (0, 1, 2):
            pub.publish(topic, f"{sent}", sent)
            assert sub.get() == (topic, f"{sent}", min(sent, granted), False)
    sub.leave()
    pub.leave()


def order(version, root):
    sub, pub = Peer("sub", version), Peer("pub", version)
    sub.subscribe(root, 2)
    for number in range(300):
        pub.client.publish(root, str(number), number % 3)
    got = [sub.get() for _ in range(300)]
    for level in (0, 1, 2):
        assert [int(m[1]) for m in got if m[2] == level] == list(range(level, 300, 3))
    sub.leave()
    pub.leave()


def retained(version, root):
    pub = Peer("pub", version)
    pub.publish(f"{root}/1", "v", 1, retain=True)
    sub = Peer("sub", version)
    sub.subscribe(f"{root}/+", 1)
    assert sub.get() == (f"{root}/1", "v", 1, True)
    pub.publish(f"{root}/1", "", 1, retain=True)
    assert sub.get()[1:] == ("", 1, False)
    late = Peer("late", version)
    late.subscribe(f"{root}/+", 1)
    pub.publish(f"{root}/mark", "m", 1)
    assert late.get()[0] == f"{root}/mark", "the retained message was cleared"
    for peer in (pub, sub, late):
        peer.leave()


def will(version, root):
    watcher = Peer("watcher", version)
    watcher.subscribe(f"{root}/#", 1)
    Peer("polite", version, will=(f"{root}/polite", "gone", 1, False)).leave()
    Peer("victim", version, will=(f"{root}/victim", "gone", 1, False)).cut()
    assert watcher.get() == (f"{root}/victim", "gone", 1, False)
    watcher.leave()


def resume(version, root):
    pub = Peer("pub", version)
    sub = Peer("sleeper", version, clean=False, expiry_s=60)
    sub.subscribe(f"{root}/#", 2)
    sub.leave()
    for level in (1, 2):
        pub.publish(f"{root}/{level}", "kept", level)
    back = Peer("sleeper", version, clean=False, expiry_s=60)
    assert back.session_present
    assert [back.get()[:3] for _ in (1, 2)] == [(f"{root}/{n}", "kept", n) for n in (1, 2)]
    back.leave()
    fresh = Peer("sleeper", version, clean=True)
    assert not fresh.session_present
    fresh.leave()
    pub.leave()


def shared(version, root):
    members, jobs = [Peer(f"m{i}", version) for i in range(3)], queue.Queue()
    for member in members:
        member.messages = jobs
        member.subscribe(f"$share/group/{root}/job", 1)
        member.subscribe(f"{root}/end", 1)
    pub = Peer("pub", version)
    for number in range(30):
        pub.publish(f"{root}/job", str(number), 1)
    got = [jobs.get(timeout=WAIT_S) for _ in range(30)]
    assert sorted(int(message.payload) for message in got) == list(range(30))
    pub.publish(f"{root}/end", "e", 1)
    assert all(jobs.get(timeout=WAIT_S).payload == b"e" for _ in members), "each once"
    for peer in [pub, *members]:
        peer.leave()


def takeover(version, _root):
    first = Peer("twin", version)
    second = Peer("twin", version)
    first.gone.get(timeout=WAIT_S)
    second.leave()
    first.client.loop_stop()


def aliases(version, root):
    # Of the aliases of a broker paho leaves the topic empty, so none are asked for.
    sub, pub = Peer("sub", version), Peer("pub", version)
    sub.subscribe(f"{root}/#", 1)
    pub.publish(f"{root}/a", "1", 1, TopicAlias=1)
    pub.publish(f"{root}/b", "2", 0, TopicAlias=2)
    pub.publish("", "3", 1, TopicAlias=1)
    pub.publish("", "4", 0, TopicAlias=2)
    pub.publish(f"{root}/c", "5", 1, TopicAlias=1)
    pub.publish("", "6", 1, TopicAlias=1)
    got = sorted((text, topic) for topic, text, _, _ in (sub.get() for _ in range(6)))
    assert got == [(str(n), f"{root}/{t}") for n, t in enumerate("ababcc", 1)], got
    sub.leave()
    pub.leave()


def properties(version, root):
    sub, pub = Peer("sub", version), Peer("pub", version)
    subscribe = Properties(PacketTypes.SUBSCRIBE)
    subscribe.SubscriptionIdentifier = 77
    sub.subscribe(f"{root}/#", options=SubscribeOptions(qos=1), properties=subscribe)
    pub.publish(
        f"{root}/x",
        "v",
        1,
        UserProperty=[("b", "1"), ("a", "2"), ("b", "3")],
        ResponseTopic="reply/to",
        CorrelationData=b"\x00\x01",
        ContentType="text/plain",
        PayloadFormatIndicator=1,
        MessageExpiryInterval=100,
    )
    got = sub.messages.get(timeout=WAIT_S).properties
    assert got.UserProperty == [("b", "1"), ("a", "2"), ("b", "3")]
    assert (got.ResponseTopic, got.CorrelationData) == ("reply/to", b"\x00\x01")
    assert (got.ContentType, got.PayloadFormatIndicator) == ("text/plain", 1)
    assert got.SubscriptionIdentifier == [77]
    assert 0 < got.MessageExpiryInterval <= 100
    sub.leave()
    pub.leave()


def expiry(version, root):
    kept = Peer("kept", version, clean=False, expiry_s=60)
    kept.subscribe(f"{root}/#", 1)
    kept.leave()
    Peer("short", version, clean=False, expiry_s=1).leave()
    pub = Peer("pub", version)
    pub.publish(f"{root}/short", "expired", 1, MessageExpiryInterval=1)
    pub.publish(f"{root}/long", "there", 1, MessageExpiryInterval=60)
    # No event tells that time has passed.
    time.sleep(2.5)
    back = Peer("kept", version, clean=False, expiry_s=0)
    assert back.session_present
    message = back.messages.get(timeout=WAIT_S)
    assert message.topic == f"{root}/long", message.topic
    assert message.properties.MessageExpiryInterval <= 58
    gone = Peer("short", version, clean=False, expiry_s=0)
    assert not gone.session_present, "its session has expired"
    for peer in (back, gone, pub):
        peer.leave()


BOTH = [qos, order, retained, will, resume, shared, takeover]
ONLY_5 = [aliases, properties, expiry]


def main():
    failed = 0
    for name, version, cells in (("3.1.1", V311, BOTH), ("5.0", V5, BOTH + ONLY_5)):
        for cell in cells:
            cell_name = f"{name}/{cell.__name__}"
            try:
                cell(version, f"paho/{cell_name}")
                print(f"ok {cell_name}", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAIL {cell_name} {error!r}", flush=True)
    # Threads of cut clients may still wait; they have nothing to say.
    os._exit(1 if failed else 0)


main()
