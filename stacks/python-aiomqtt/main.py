"""aiomqtt: asyncio on paho; receives with `async for`, awaits `publish`."""

import asyncio
import importlib.metadata
import os
import sys

import aiomqtt

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import stack  # noqa: E402


class Stack:
    def __init__(self, options):
        self.options, self.counts = options, stack.Counts(options.workflow)
        self.filter = stack.Filter(options, self.counts)

    def new_client(self):
        return aiomqtt.Client(
            self.options.host,
            self.options.port,
            identifier=self.options.client_id,
            protocol=aiomqtt.ProtocolVersion.V311,
            clean_session=True,
        )

    async def main(self, started, stopped, ready):
        if self.options.workflow == "connect":
            self.say_ready(ready)
            await stack.churn(self.options, started, stopped, self.connect_once)
            return
        async with self.new_client() as client:
            if self.options.workflow == "publish":
                self.say_ready(ready)
                publishing = stack.Publishing(self.counts)
                # Above this the library logs a warning for each message.
                client.pending_calls_threshold = publishing.PENDING_MAX
                work = self.publish_records(client, publishing, started)
                # No message arrives, but a lost connection is reported here.
                await stack.until_stopped(stopped, work, self.count(client))
                await publishing.drain()
                return
            await client.subscribe(self.options.filter, qos=self.options.qos)
            self.say_ready(ready)
            is_only = self.options.workflow == "subscribe"
            work = self.count(client) if is_only else self.forward(client)
            await stack.until_stopped(stopped, work)

    def say_ready(self, ready):
        version = importlib.metadata.version("aiomqtt")
        paho = importlib.metadata.version("paho-mqtt")
        stack.say_ready(
            "python-aiomqtt", f"aiomqtt-{version}+paho-mqtt-{paho}", self.filter.library
        )
        ready()

    async def count(self, client):
        async for _message in client.messages:
            self.counts.received += 1

    async def forward(self, client):
        async for message in client.messages:
            self.counts.received += 1
            if self.filter.wants(message.payload):
                try:
                    await client.publish(self.options.topic, message.payload, self.options.qos)
                    self.counts.published += 1
                except aiomqtt.MqttError:
                    self.counts.failed += 1

    async def publish_records(self, client, publishing, started):
        await started.wait()

        def publish(number):
            record = stack.RECORD % (stack.N_FIRST + number)
            publishing.begin(client.publish(self.options.topic, record, self.options.qos))

        await stack.pace_async(self.options.rate, publish)

    async def connect_once(self, _number):
        try:
            async with self.new_client():
                pass
            self.counts.connects += 1
        except (aiomqtt.MqttError, OSError):
            self.counts.failed += 1


def main():
    options = stack.arguments()
    run = Stack(options)
    stack.run_async(options, run.counts, run.main)


main()
