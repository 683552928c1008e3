"""amqtt (formerly hbmqtt): asyncio, receives with `deliver_message`, awaits `publish`."""

import asyncio
import importlib.metadata
import logging
import os
import sys

from amqtt.client import MQTTClient
from amqtt.errors import ClientError, ConnectError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import stack  # noqa: E402


class Stack:
    def __init__(self, options):
        self.options, self.counts = options, stack.Counts(options.workflow)
        self.filter = stack.Filter(options, self.counts)

    async def new_client(self):
        client = MQTTClient(self.options.client_id, config={"auto_reconnect": False})
        await client.connect(f"mqtt://{self.options.host}:{self.options.port}", cleansession=True)
        return client

    async def main(self, started, stopped, ready):
        if self.options.workflow == "connect":
            self.say_ready(ready)
            await stack.churn(self.options, started, stopped, self.connect_once)
            return
        client = await self.new_client()
        publishing = stack.Publishing(self.counts)
        works = []
        if self.options.workflow == "publish":
            works.append(self.publish_records(client, publishing, started))
            # No message arrives, but a lost connection is reported here.
            works.append(self.count(client))
        else:
            granted = await client.subscribe([(self.options.filter, self.options.qos)])
            if granted != [self.options.qos]:
                raise ConnectionError(f"subscription refused: {granted}")
            is_only = self.options.workflow == "subscribe"
            works.append(self.count(client) if is_only else self.forward(client))
        self.say_ready(ready)
        await stack.until_stopped(stopped, *works)
        await publishing.drain()
        await client.disconnect()

    def say_ready(self, ready):
        version = importlib.metadata.version("amqtt")
        stack.say_ready("python-amqtt", f"amqtt-{version}", self.filter.library)
        ready()

    async def count(self, client):
        # It is missing if the connection was lost.
        while await client.deliver_message():
            self.counts.received += 1
        raise ConnectionError("disconnected")

    async def forward(self, client):
        while message := await client.deliver_message():
            self.counts.received += 1
            if self.filter.wants(message.data):
                await client.publish(
                    self.options.topic, bytes(message.data), qos=self.options.qos
                )
                self.counts.published += 1
        raise ConnectionError("disconnected")

    async def publish_records(self, client, publishing, started):
        await started.wait()

        def publish(number):
            record = stack.RECORD % (stack.N_FIRST + number)
            publishing.begin(client.publish(self.options.topic, record, qos=self.options.qos))

        await stack.pace_async(self.options.rate, publish)

    async def connect_once(self, _number):
        try:
            client = await self.new_client()
            await client.disconnect()
            self.counts.connects += 1
        except (ClientError, ConnectError, OSError, asyncio.TimeoutError):
            self.counts.failed += 1


def main():
    # The library logs every connection at level `info`.
    logging.basicConfig(level=logging.WARNING)
    options = stack.arguments()
    run = Stack(options)
    stack.run_async(options, run.counts, run.main)


main()
