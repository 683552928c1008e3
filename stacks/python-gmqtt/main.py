"""gmqtt: asyncio, callbacks called by the event loop; `publish` writes and does not wait."""

import asyncio
import os
import sys

from gmqtt import Client
from gmqtt import __version__
from gmqtt.mqtt.constants import MQTTv311
from gmqtt.storage import PersistentStorage

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import stack  # noqa: E402

WAIT_S = 10.0


class Stack:
    def __init__(self, options):
        self.options, self.counts = options, stack.Counts(options.workflow)
        self.filter = stack.Filter(options, self.counts)

    async def main(self, started, stopped, ready):
        if self.options.workflow == "connect":
            self.say_ready(ready)
            await stack.churn(self.options, started, stopped, self.connect_once)
            return
        # Holds what is published at QoS 1 until it is acknowledged.
        unacknowledged = PersistentStorage()
        lost, subscribed = asyncio.Event(), asyncio.Event()
        self.client = self.new_client(persistent_storage=unacknowledged)
        self.client.on_disconnect = lambda *_: lost.set()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.on_message = (
            self.count if self.options.workflow == "subscribe" else self.forward
        )
        await self.connect(self.client)
        if self.options.workflow != "publish":
            self.client.subscribe(self.options.filter, qos=self.options.qos)
            await asyncio.wait_for(subscribed.wait(), WAIT_S)
        self.say_ready(ready)

        async def watch():
            await lost.wait()
            raise ConnectionError("disconnected")

        works = [watch()]
        if self.options.workflow == "publish":
            works.append(self.publish_records(started))
        await stack.until_stopped(stopped, *works)
        if self.options.qos:
            try:
                await asyncio.wait_for(unacknowledged.wait_empty(), stack.LEAVE_S)
            except asyncio.TimeoutError:
                print("left with publishes unacknowledged", file=sys.stderr)
        await self.client.disconnect()

    def new_client(self, **options):
        client = Client(self.options.client_id, clean_session=True, **options)
        # Never reconnect: -1 would retry forever, 0 once.
        client.set_config({"reconnect_retries": -2})
        return client

    async def connect(self, client):
        joined = client.connect(self.options.host, self.options.port, version=MQTTv311)
        await asyncio.wait_for(joined, WAIT_S)

    def say_ready(self, ready):
        stack.say_ready("python-gmqtt", f"gmqtt-{__version__}", self.filter.library)
        ready()

    def count(self, _client, _topic, _payload, _qos, _properties):
        self.counts.received += 1
        return 0

    def forward(self, _client, _topic, payload, _qos, _properties):
        self.counts.received += 1
        if self.filter.wants(payload):
            self.publish(payload)
        return 0

    def publish(self, payload):
        try:
            self.client.publish(self.options.topic, payload, qos=self.options.qos)
            self.counts.published += 1
        except OverflowError:  # all packet identifiers are in use
            self.counts.failed += 1

    async def publish_records(self, started):
        def publish(number):
            self.publish(stack.RECORD % (stack.N_FIRST + number))

        await started.wait()
        await stack.pace_async(self.options.rate, publish)

    async def connect_once(self, _number):
        client = self.new_client()
        try:
            await self.connect(client)
            await client.disconnect()
            self.counts.connects += 1
        except (OSError, asyncio.TimeoutError):
            self.counts.failed += 1


def main():
    options = stack.arguments()
    run = Stack(options)
    stack.run_async(options, run.counts, run.main)


main()
