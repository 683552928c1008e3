"""Python paho: callbacks on the network thread of `loop_start`, commands on the main thread."""

import os
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt import __version__

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import stack  # noqa: E402

WAIT_S = 10.0


def new_client(client_id):
    return mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=True,
        protocol=mqtt.MQTTv311,
    )


class Stack:
    def __init__(self, options):
        self.options, self.counts = options, stack.Counts(options.workflow)
        self.filter = stack.Filter(options, self.counts)
        self.stopped, self.leaving = threading.Event(), False
        self.last, self.worker = None, None

    def join(self):
        """Connects, subscribes if the workflow does, and returns once the broker has answered."""
        answered = threading.Event()
        reads = self.options.workflow in ("subscribe", "workflow")

        def on_connect(client, _userdata, _flags, reason, _properties):
            if reason.is_failure:
                fail(f"refused: {reason}")
            if reads:
                client.subscribe(self.options.filter, self.options.qos)
            else:
                answered.set()

        def on_subscribe(_client, _userdata, _mid, reasons, _properties):
            if reasons[0].is_failure:
                fail(f"subscription refused: {reasons[0]}")
            answered.set()

        def on_disconnect(_client, _userdata, _flags, reason, _properties):
            if not self.leaving:
                fail(f"disconnected: {reason}")

        client = new_client(self.options.client_id)
        client.on_connect, client.on_subscribe = on_connect, on_subscribe
        client.on_disconnect = on_disconnect
        client.on_message = self.count if self.options.workflow == "subscribe" else self.forward
        client.connect(self.options.host, self.options.port)
        client.loop_start()
        if not answered.wait(WAIT_S):
            fail("no answer from the broker")
        self.client = client

    def count(self, _client, _userdata, _message):
        self.counts.received += 1

    def forward(self, _client, _userdata, message):
        self.counts.received += 1
        if self.filter.wants(message.payload):
            self.publish(message.payload)

    def publish(self, payload):
        info = self.client.publish(self.options.topic, payload, self.options.qos)
        if info.rc == mqtt.MQTT_ERR_SUCCESS:
            self.counts.published += 1
            self.last = info
        else:
            self.counts.failed += 1

    def connect_once(self, _number):
        client = new_client(self.options.client_id)
        try:
            client.connect(self.options.host, self.options.port)
            while not client.is_connected():
                if client.loop(timeout=WAIT_S) != mqtt.MQTT_ERR_SUCCESS:
                    self.counts.failed += 1
                    return
            client.disconnect()
            self.counts.connects += 1
        except OSError:
            self.counts.failed += 1

    def start(self):
        operation = {
            "publish": lambda number: self.publish(stack.RECORD % (stack.N_FIRST + number)),
            "connect": self.connect_once,
        }.get(self.options.workflow)
        if operation and not self.worker:
            arguments = (self.options.rate, self.stopped, operation)
            self.worker = threading.Thread(target=stack.pace, args=arguments, daemon=True)
            self.worker.start()

    def leave(self):
        self.stopped.set()
        if self.worker:
            self.worker.join(WAIT_S)
        if self.options.workflow == "connect":
            return
        if self.last and self.options.qos:
            self.last.wait_for_publish(stack.LEAVE_S)
        self.leaving = True
        self.client.disconnect()
        self.client.loop_stop()


def fail(text):
    print(text, file=sys.stderr, flush=True)
    os._exit(1)


def main():
    options = stack.arguments()
    run = Stack(options)
    if options.workflow != "connect":
        run.join()
    stack.say_ready("python-paho", f"paho-mqtt-{__version__}", run.filter.library)
    stack.serve(run.counts, run.start)
    run.leave()
    stack.say(run.counts.line())


main()
