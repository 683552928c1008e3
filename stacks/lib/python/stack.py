"""What the Python stacks share: arguments, counts, commands on stdin, pace, JSON, a record to send.

The line protocol is described in ../../README.md.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import threading
import time

# 300 bytes with the ten digits of `n` and the closing brace.
RECORD = (
    b'{"t":1521028800,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,"z":220,"s":62,'
    b'"c":184,"sc":11},"i":3,"o":0,"p":{"mcc":257,"mnc":2,"lac":10471,"cell_id":55023,"gsm":21,'
    b'"pwr_ext":13.842,"pwr_int":4.103,"odo":48213.671,"hdop":1,"temp":21.5,"fuel":47.25,"rpm":1840,'
    b'"ign":1},"n":%d}'
)
N_FIRST = 1_000_000_000

TICK_S = 0.001
# How long to wait for acknowledgements after `stop`.
LEAVE_S = 2.0


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    workflows = ["subscribe", "workflow", "publish", "connect"]
    parser.add_argument("--workflow", choices=workflows, required=True)
    parser.add_argument("--in", dest="filter", default="ud/#")
    parser.add_argument("--out", dest="topic", default="out")
    parser.add_argument("--qos", type=int, choices=[0, 1], default=0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--json", choices=["json", "orjson"], default="json")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    options = parser.parse_args()
    if options.workflow in ("publish", "connect") and options.rate <= 0:
        parser.error("--rate must be above 0 for the workflows publish and connect")
    options.client_id = f"stack-{os.getpid()}"
    return options


def json_library(name):
    """The function that parses, and the library's name with its version."""
    if name == "orjson":
        import orjson

        return orjson.loads, f"orjson-{orjson.__version__}"
    return json.loads, f"json-{platform.python_version()}"


class Counts:
    """Written by one thread and read by another, for which an attribute is enough."""

    def __init__(self, workflow):
        self.received = self.matched = self.published = self.failed = self.connects = 0
        self._connects_too = workflow == "connect"

    def line(self):
        text = (
            f"counts received={self.received} matched={self.matched} "
            f"published={self.published} failed={self.failed}"
        )
        return text + (f" connects={self.connects}" if self._connects_too else "")


class Filter:
    """Parses a payload and says whether the record has a cell."""

    def __init__(self, options, counts):
        self.loads, self.library = json_library(options.json)
        self.counts = counts

    def wants(self, payload):
        try:
            record = self.loads(payload)
        except ValueError:
            self.counts.failed += 1
            return False
        p = record.get("p") if isinstance(record, dict) else None
        if isinstance(p, dict) and "mcc" in p and "mnc" in p and "lac" in p and "cell_id" in p:
            self.counts.matched += 1
            return True
        return False


def say(line):
    print(line, flush=True)


def say_ready(name, library_version, json_version):
    runtime = f"{platform.python_implementation()}-{platform.python_version()}"
    if hasattr(sys, "pypy_version_info"):
        runtime = "PyPy-{0.major}.{0.minor}.{0.micro}".format(sys.pypy_version_info)
    if "uvloop" in sys.modules:
        runtime += f"+uvloop-{sys.modules['uvloop'].__version__}"
    say(f"ready {name} {library_version} {runtime} {json_version}")


def serve(counts, start):
    """Reads commands until `stop` or the end of stdin; calls `start` at `start`."""
    for line in sys.stdin:
        command = line.strip()
        if command == "start":
            start()
        elif command == "counts":
            say(counts.line())
        elif command == "stop":
            return
        elif command:
            print(f"no such command: {command}", file=sys.stderr)


def due(begin, rate):
    """How many operations are due by now; the first is due immediately."""
    return int((time.perf_counter() - begin) * rate) + 1


def pace(rate, stopped, operation):
    """Open loop: calls `operation(number)` when it is due; late ones are called at once."""
    begin, number = time.perf_counter(), 0
    while not stopped.is_set():
        now_due = due(begin, rate)
        while number < now_due and not stopped.is_set():
            operation(number)
            number += 1
        time.sleep(TICK_S)


async def pace_async(rate, operation):
    """The same on an event loop, until it is cancelled; `operation` is not a coroutine."""
    begin, number = time.perf_counter(), 0
    while True:
        now_due = due(begin, rate)
        while number < now_due:
            operation(number)
            number += 1
        await asyncio.sleep(TICK_S)


async def churn(options, started, stopped, operation):
    """The same from `started` to `stopped`, with a coroutine that is waited for each time."""
    await until_stopped(stopped, started.wait())
    begin, number = time.perf_counter(), 0
    while not stopped.is_set():
        now_due = due(begin, options.rate)
        # It is not cancelled: not every library leaves cleanly in the middle of a connect.
        while number < now_due and not stopped.is_set():
            await operation(number)
            number += 1
        await asyncio.sleep(TICK_S)


class Publishing:
    """Publishes of libraries whose `publish` is a coroutine that waits for the acknowledgement.

    Each is a task, so that the next does not wait for it. At most `PENDING_MAX` are under way:
    one more counts as failed.
    """

    PENDING_MAX = 50_000

    def __init__(self, counts):
        self.counts, self.tasks = counts, set()

    def begin(self, coroutine):
        if len(self.tasks) >= self.PENDING_MAX:
            coroutine.close()
            self.counts.failed += 1
            return
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task):
        self.tasks.discard(task)
        if task.cancelled() or task.exception():
            self.counts.failed += 1
        else:
            self.counts.published += 1

    async def drain(self):
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=LEAVE_S)


def run_async(options, counts, main):
    """Runs `main(started, stopped)`, two events that the commands on stdin set."""
    if options.loop == "uvloop":
        import uvloop

        runner = uvloop.run
    else:
        runner = asyncio.run

    async def with_commands():
        loop = asyncio.get_running_loop()
        started, stopped = asyncio.Event(), asyncio.Event()

        def commands():
            serve(counts, lambda: loop.call_soon_threadsafe(started.set))
            loop.call_soon_threadsafe(stopped.set)

        thread = threading.Thread(target=commands, daemon=True)
        await main(started, stopped, thread.start)

    try:
        runner(with_commands())
    except Exception as error:
        # Threads of a library may still be running; nothing they do matters now.
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    say(counts.line())


async def until_stopped(stopped, *works):
    """Runs coroutines until one ends or `stopped` is set, then cancels them; raises as they do."""
    waits = asyncio.ensure_future(stopped.wait())
    tasks = [asyncio.ensure_future(work) for work in works]
    done, _ = await asyncio.wait([waits, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waits.cancel()
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
