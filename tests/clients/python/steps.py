"""Runs the steps of the client matrix, which ../matrix describes, with whatever client it is given."""

import sys
import time
from collections import namedtuple

LIMIT = 30  # seconds for whatever is waited for
COUNT = 200  # records that the step produce sends

Record = namedtuple("Record", "key value headers", defaults=[{}])


def run(version, connect):
    """Runs all steps with a client, which brings

    create(topic, partitions), partitions(topic), delete(topic), topics();
    produce(topic, records); transact(topic, id, records, commit), one whole transaction;
    read(topic), a generator of lists, also empty ones, of a topic's committed records from its beginning;
    join(topic, group), a member with poll() for a list of values, partitions(), and leave(), which commits.
    """
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT NAME [SETTING=VALUE of group members ...]")
    print("version", version, flush=True)
    client = connect(sys.argv[1], dict(each.split("=", 1) for each in sys.argv[3:]))
    for step in (admin, produce, headers, group, rebalance, transaction):
        try:
            step(client, sys.argv[2])
            print(step.__name__, "ok", flush=True)
        except Exception as error:  # whatever a client raises is this step's outcome
            print(step.__name__, "fail", " ".join(f"{type(error).__name__}: {error}".split()), flush=True)


def admin(client, name):
    topic = f"{name}-gone"
    client.create(topic, 3)
    equal("partitions", client.partitions(topic), 3)
    client.delete(topic)
    wait("the topic is gone", lambda: topic not in client.topics())


def sent():
    return [Record(f"key-{i}", f"value-{i}", {"number": f"{i}".encode(), "empty": b""}) for i in range(COUNT)]


def records(word, count):
    return [Record(f"{word}-{i:03}", f"{word}-{i:03}") for i in range(count)]


def produce(client, name):
    client.create(name, 4)
    client.produce(name, sent())
    client.seen = collect(client, name, COUNT)
    equal("contents", sorted(each[:2] for each in client.seen), sorted(each[:2] for each in sent()))


def headers(client, name):
    equal("headers", {each.key: each.headers for each in client.seen}, {each.key: each.headers for each in sent()})


def group(client, name):
    first = Follower(client.join(name, f"{name}-group"))
    wait("the first member reads all", lambda: len(first.poll()) >= COUNT)
    first.leave()
    client.produce(name, records("later", 1))
    second = Follower(client.join(name, f"{name}-group"))
    wait("the second member reads", second.poll)
    equal("what is left", second.values, ["later-000"])
    second.leave()


def rebalance(client, name):
    topic = f"{name}-shared"
    client.create(topic, 4)
    first = Follower(client.join(topic, topic))
    wait("the first member has all", lambda: first.partitions() == 4)
    second = Follower(client.join(topic, topic))
    wait("they share", lambda: (first.partitions(), second.partitions()) == (2, 2))
    shared = records("shared", 40)
    client.produce(topic, shared)
    wait("they read all", lambda: len(first.poll()) + len(second.poll()) >= len(shared))
    equal("values", sorted(first.values + second.values), [each.value for each in shared])
    second.leave()
    wait("the first has all again", lambda: first.partitions() == 4)
    first.leave()


def transaction(client, name):
    topic = f"{name}-transactions"
    client.create(topic, 1)
    client.transact(topic, topic, records("aborted", 10), commit=False)
    client.transact(topic, topic, records("committed", 10), commit=True)
    equal("values", [each.value for each in collect(client, topic, 10)], [each.value for each in records("committed", 10)])


class Follower:
    """A member and what it has read."""

    def __init__(self, member):
        self.member, self.values, self.leave = member, [], member.leave

    def poll(self):
        self.values += self.member.poll()
        return self.values

    def partitions(self):
        self.poll()
        return self.member.partitions()


def collect(client, topic, count):
    seen, late = [], time.monotonic() + LIMIT
    for some in client.read(topic):
        seen += some
        if len(seen) >= count:
            return seen
        if time.monotonic() > late:
            raise TimeoutError(f"read {len(seen)} records of {count} in {LIMIT} s")


def wait(what, holds):
    late = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > late:
            raise TimeoutError(f"not in {LIMIT} s: {what}")
        time.sleep(0.02)


def equal(what, got, expected):
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")
