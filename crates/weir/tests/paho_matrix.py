"""Python's paho against a broker on 127.0.0.1: QoS, retained, will, resume, shared; 3.1.1 and 5.0.

Usage: paho_matrix.py PORT. Prints a line a case; the exit code says whether all passed.
"""

import queue
import socket
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

HOST, PORT = "127.0.0.1", int(sys.argv[1])
WAIT_S = 20


class Peer:
    """A client whose messages and acknowledgements can be waited for."""

    def __init__(self, client_id, version, clean=True, expiry_s=0, will=None):
        self.messages, self.granted = queue.Queue(), queue.Queue()
        self.connected = queue.Queue()
        is_v5 = version == mqtt.MQTTv5
        kwargs = {} if is_v5 else {"clean_session": clean}
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version, **kwargs
        )
        self.client.on_connect = lambda _c, _u, flags, reason, _p: self.connected.put((flags, reason))
        self.client.on_message = lambda _c, _u, message: self.messages.put(message)
        self.client.on_subscribe = lambda _c, _u, _m, reasons, _p: self.granted.put(reasons)
        if will:
            self.client.will_set(*will)
        kwargs = {}
        if is_v5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
            kwargs = {"clean_start": clean, "properties": properties}
        self.client.connect(HOST, PORT, keepalive=30, **kwargs)
        self.client.loop_start()
        self.flags, reason = self.connected.get(timeout=WAIT_S)
        assert not reason.is_failure, reason

    def subscribe(self, topic, qos=0, **kwargs):
        self.client.subscribe(topic, **({"qos": qos} if not kwargs else {}), **kwargs)
        reasons = self.granted.get(timeout=WAIT_S)
        assert not reasons[0].is_failure, reasons

    def publish(self, topic, payload, qos=0, retain=False, properties=None):
        info = self.client.publish(topic, payload, qos, retain, properties)
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
        self.client.on_disconnect = None
        self.client.reconnect_delay_set(1000, 1000)
        self.client.socket().shutdown(socket.SHUT_RDWR)
        threading.Thread(target=self.client.loop_stop).start()


def qos_matrix(version):
    sub, pub = Peer("sub", version), Peer("pub", version)
    for granted in (0, 1, 2):
        topic = f"q/{granted}"
        sub.subscribe(topic, granted)
        for sent in (0, 1, 2):
            pub.publish(topic, f"{sent}", sent)
            assert sub.get() == (topic, f"{sent}", min(sent, granted), False)
    sub.leave()
    pub.leave()


def order_of_many(version):
    sub, pub = Peer("sub", version), Peer("pub", version)
    sub.subscribe("many", 2)
    for number in range(300):
        pub.client.publish("many", str(number), number % 3)
    got = [sub.get() for _ in range(300)]
    for qos in (0, 1, 2):
        assert [int(m[1]) for m in got if m[2] == qos] == list(range(qos, 300, 3))
    sub.leave()
    pub.leave()


def retained(version):
    pub = Peer("pub", version)
    pub.publish("keep/1", "v", 1, retain=True)
    sub = Peer("sub", version)
    sub.subscribe("keep/+", 1)
    assert sub.get() == ("keep/1", "v", 1, True)
    pub.publish("keep/1", "", 1, retain=True)
    assert sub.get()[1] == ""
    late = Peer("late", version)
    late.subscribe("keep/+", 1)
    late.subscribe("mark", 1)
    pub.publish("mark", "m", 1)
    assert late.get()[0] == "mark", "the retained message was cleared"
    for peer in (pub, sub, late):
        peer.leave()


def will(version):
    watcher = Peer("watcher", version)
    watcher.subscribe("will/#", 1)
    Peer("victim", version, will=("will/x", "gone", 1, False)).cut()
    assert watcher.get() == ("will/x", "gone", 1, False)
    Peer("polite", version, will=("will/y", "gone", 1, False)).leave()
    watcher.client.publish("will/mark", "m", 1)
    assert watcher.get()[0] == "will/mark", "no will after DISCONNECT"
    watcher.leave()


def resume(version):
    pub = Peer("pub", version)
    sub = Peer("sleeper", version, clean=False, expiry_s=60)
    sub.subscribe("s/#", 2)
    sub.leave()
    for qos in (1, 2):
        pub.publish(f"s/{qos}", "kept", qos)
    back = Peer("sleeper", version, clean=False, expiry_s=60)
    assert back.flags.session_present
    assert [back.get()[:3] for _ in (1, 2)] == [("s/1", "kept", 1), ("s/2", "kept", 2)]
    back.leave()
    fresh = Peer("sleeper", version, clean=True)
    assert not fresh.flags.session_present
    fresh.leave()
    pub.leave()


def shared(version):
    members = [Peer(f"m{i}", version) for i in range(3)]
    for member in members:
        member.subscribe("$share/g/job/#", 1)
    pub = Peer("pub", version)
    for number in range(30):
        pub.publish("job/x", str(number), 1)
    got = []
    for member in members:
        for _ in range(10):
            got.append(int(member.get()[1]))
    assert sorted(got) == list(range(30))
    for peer in [pub, *members]:
        peer.leave()


def takeover(version):
    first = Peer("twin", version)
    gone = threading.Event()
    first.client.on_disconnect = lambda *_: gone.set()
    first.client.reconnect_delay_set(1000, 1000)
    second = Peer("twin", version)
    assert gone.wait(WAIT_S)
    second.leave()
    first.client.loop_stop()


def properties_of_5(version):
    if version != mqtt.MQTTv5:
        return
    sub, pub = Peer("sub", version), Peer("pub", version)
    subscribe = Properties(PacketTypes.SUBSCRIBE)
    subscribe.SubscriptionIdentifier = 77
    sub.subscribe("p/#", options=SubscribeOptions(qos=1), properties=subscribe)
    publish = Properties(PacketTypes.PUBLISH)
    publish.UserProperty = [("b", "1"), ("a", "2")]
    publish.ResponseTopic = "reply/to"
    publish.CorrelationData = b"\x00\x01"
    publish.ContentType = "text/plain"
    publish.MessageExpiryInterval = 100
    pub.publish("p/x", "v", 1, properties=publish)
    got = sub.messages.get(timeout=WAIT_S).properties
    assert got.UserProperty == [("b", "1"), ("a", "2")]
    assert (got.ResponseTopic, got.CorrelationData) == ("reply/to", b"\x00\x01")
    assert (got.ContentType, got.SubscriptionIdentifier) == ("text/plain", [77])
    assert 0 < got.MessageExpiryInterval <= 100
    sub.leave()
    pub.leave()


CASES = [
    qos_matrix, order_of_many, retained, will, resume, shared, takeover, properties_of_5,
]


def main():
    failed = 0
    for name, version in (("3.1.1", mqtt.MQTTv311), ("5.0", mqtt.MQTTv5)):
        for case in CASES:
            try:
                case(version)
                print(f"passed {name} {case.__name__}")
            except Exception as error:
                failed += 1
                print(f"FAILED {name} {case.__name__}: {error!r}")
    sys.stdout.flush()
    # Threads of cut clients may still wait; they have nothing to say.
    import os

    os._exit(1 if failed else 0)


main()
