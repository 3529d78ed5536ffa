"""What a soak does to a broker: workers, each a thread with clients of its own, and what each must find at the end.

A worker's turn() is called until it is told to stop. What it was told is acknowledged it remembers; verify() reads it back and raises
Violation for what is not as it was acknowledged. Errors of clients are counted, not failures: a record whose send failed may be there or
not. Nothing here is random but by the soak's seed.
"""

import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
from array import array

from kafka import ConsumerGroupMetadata, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import ProducerFencedError

RING_BYTES = 4 << 20


class Violation(Exception):
    """Something that must never be."""


def want(holds, what):
    if not holds:
        raise Violation(what)


class Worker(threading.Thread):
    """Calls turn() until it is told to stop, `every` seconds from one beginning to the next."""

    every = 1.0
    topics = {}  # name: (partitions, configuration)

    def __init__(self, soak):
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self.soak, self.broker = soak, soak.address
        self.random = random.Random(f"{soak.seed} {self.name}")
        self.count, self.beat = 0, time.monotonic()
        self.stop = threading.Event()

    def run(self):
        while not self.stop.is_set():
            begin = time.monotonic()
            try:
                self.turn()
                self.beat = time.monotonic()
            except Violation as what:
                self.soak.violation(f"{self.name}: {what}")
                break
            except Exception as error:  # whatever a client raises: counted, and the worker begins anew
                self.soak.error(self.name, error)
                self.close()
                self.stop.wait(1)
            self.stop.wait(max(0.0, begin + self.every - time.monotonic()))
        self.close()

    def close(self):
        try:
            self.reset()
        except Exception as error:
            self.soak.error(f"{self.name}, closing", error)

    def turn(self):
        raise NotImplementedError

    def reset(self):
        """Closes what the worker holds; the next turn opens it again."""

    def verify(self):
        """Reads back what was acknowledged; runs on another start of the broker, when no load is left."""

    def told(self):
        """What the worker adds to a line of progress."""
        return f"{self.name} {self.count}"

    def stands_still(self, now):
        return now - self.beat > self.soak.patience

    def make_producer(self, **configs):
        return KafkaProducer(bootstrap_servers=self.broker, acks="all", linger_ms=5, max_block_ms=30000, metadata_max_age_ms=30000, **configs)

    def make_consumer(self, *topics, **configs):
        # A short age of metadata: this client may forget that it wanted another answer, and would wait five minutes for it.
        return KafkaConsumer(*topics, bootstrap_servers=self.broker, auto_offset_reset="earliest", metadata_max_age_ms=5000, **configs)

    def read(self, topic, partition, **configs):
        """Every record of a partition that there is at this moment."""
        where, records = TopicPartition(topic, partition), []
        consumer = self.make_consumer(group_id=None, enable_auto_commit=False, **configs)
        try:
            consumer.assign([where])
            end = consumer.end_offsets([where])[where]
            consumer.seek_to_beginning(where)
            deadline = time.monotonic() + 120
            while consumer.position(where) < end:
                want(time.monotonic() < deadline, f"{topic}-{partition} cannot be read to its end {end}, only to {consumer.position(where)}")
                for batch in consumer.poll(timeout_ms=500).values():
                    records += batch
        finally:
            consumer.close()
        return records


class Producing(Worker):
    """A worker that sends a few numbered records each turn and keeps what became of them."""

    producer = None
    per_turn = 25

    def send_all(self, records):
        """Sends (topic, partition, key, value)s; yields each with its offset, or None where nobody knows."""
        if self.producer is None:
            self.producer = self.make_producer(enable_idempotence=True, compression_type=self.random.choice([None, "lz4", "zstd", "gzip"]))
        sent = [(each, self.producer.send(each[0], each[3], each[2], partition=each[1])) for each in records]
        lost = None
        for each, future in sent:
            try:
                yield each, future.get(timeout=60).offset
            except Exception as error:
                lost = error
                yield each, None
        if lost is not None:
            raise lost

    def reset(self):
        if self.producer is not None:
            self.producer.close(timeout=5)
        self.producer = None


def fill_memory(address, shards, bytes_each=9 << 20):
    """Writes so many bytes of small batches for each shard: a broker may keep the newest of them, and what it keeps is full then."""
    topic, partitions, value = "soak-warm", 32 * shards, bytes(200)
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    # A batch for each record, and many partitions, so that a request still carries many.
    producer = KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=0, batch_size=1, enable_idempotence=False)
    for number in range(shards * bytes_each // (len(value) + 70)):
        producer.send(topic, value, partition=number % partitions)
    producer.flush(timeout=300)
    producer.close()
    admin.delete_topics([topic])
    admin.close()


class Log(Producing):
    """A log that keeps everything: an acknowledged record is at its offset, each number is there once at most."""

    every = 0.5
    topic, partitions = "soak-log", 4
    topics = {topic: (partitions, {"retention.ms": "-1"})}

    def __init__(self, soak):
        super().__init__(soak)
        self.acked = [(array("q"), array("q")) for _ in range(self.partitions)]  # offsets, numbers

    def turn(self):
        records = []
        for number in range(self.count, self.count + self.per_turn):
            body = b"%d:%s" % (number, self.random.randbytes(self.random.randrange(50, 300)).hex().encode())
            records.append((self.topic, self.random.randrange(self.partitions), None, body))
        self.count += self.per_turn
        for (_, partition, _, body), offset in self.send_all(records):
            if offset is not None:
                self.acked[partition][0].append(offset)
                self.acked[partition][1].append(int(body.split(b":")[0]))

    def verify(self):
        total = 0
        for partition, (offsets, numbers) in enumerate(self.acked):
            there = {record.offset: int(record.value.split(b":")[0]) for record in self.read(self.topic, partition)}
            want(len(set(there.values())) == len(there), f"{self.topic}-{partition} has a record twice")
            for offset, number in zip(offsets, numbers):
                want(there.get(offset) == number, f"{self.topic}-{partition} has {there.get(offset)} at offset {offset}, where {number} was acknowledged")
            total += len(offsets)
        return f"{total} acknowledged records of the log are where they were acknowledged"


class Ring(Producing):
    """A log that rolls and loses its old segments all the time, and a reader at its end that must see every offset."""

    every = 0.5
    per_turn = 6
    topic = "soak-ring"
    topics = {topic: (1, {"segment.bytes": str(1 << 20), "retention.bytes": str(RING_BYTES)})}
    reader, next = None, 0

    def turn(self):
        block = self.random.randbytes(10_000)
        where = TopicPartition(self.topic, 0)
        end = None
        for _, offset in self.send_all([(self.topic, 0, None, block)] * self.per_turn):
            if offset is not None:
                self.count, end = self.count + 1, offset
        if self.reader is None:
            self.reader = self.make_consumer(group_id=None, enable_auto_commit=False)
            self.reader.assign([where])
            self.reader.seek(where, self.next)
        deadline = time.monotonic() + 30
        while end is not None and self.next <= end and time.monotonic() < deadline:
            for record in self.reader.poll(timeout_ms=200).get(where, []):
                if record.offset != self.next:
                    earliest = self.reader.beginning_offsets([where])[where]
                    want(self.next < record.offset <= earliest, f"{self.topic} gave offset {record.offset} instead of {self.next}, its earliest is {earliest}")
                self.next = record.offset + 1
        want(end is None or end < self.next, f"{self.topic} did not give offset {end} in 30 s, only those below {self.next}")

    def reset(self):
        super().reset()
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def verify(self):
        there = self.read(self.topic, 0)
        size = sum(len(record.value) for record in there)
        want(there[-1].offset + 1 >= self.next, f"{self.topic} ends at {there[-1].offset}, {self.next - 1} was read")
        if self.count * 10_000 > 4 * RING_BYTES:
            want(size < 3 * RING_BYTES, f"{self.topic} still holds {size} bytes: retention is not at work")
        return f"{self.count} records went through the ring, {len(there)} are left"


class Compact(Producing):
    """A compacted log: the newest acknowledged value of a key stays, what was deleted is gone."""

    every = 0.5
    topic = "soak-compact"
    topics = {topic: (1, {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "segment.ms": "20000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000"})}

    def __init__(self, soak):
        super().__init__(soak)
        self.newest, self.unsure = {}, {}  # by key: a number or None; numbers of which nobody knows since then

    def turn(self):
        records = []
        for number in range(self.count, self.count + self.per_turn):
            value = None if self.random.random() < 0.05 else b"%d:" % number + b"v" * self.random.randrange(400)
            records.append((self.topic, 0, b"key-%d" % self.random.randrange(300), value))
        self.count += self.per_turn
        for (_, _, key, value), offset in self.send_all(records):
            number = None if value is None else int(value.split(b":")[0])
            if offset is None:
                self.unsure.setdefault(key, set()).add(number)
            else:
                self.newest[key] = number
                self.unsure.pop(key, None)

    def verify(self):
        there, records = {}, self.read(self.topic, 0)
        for record in records:
            there[record.key] = None if record.value is None else int(record.value.split(b":")[0])
        for key, number in self.newest.items():
            allowed = {number} | self.unsure.get(key, set())
            want(there.get(key) in allowed, f"{self.topic} has {there.get(key)} for {key.decode()}, acknowledged was {number}")
        if self.count > 20_000:
            want(len(records) < self.count / 2, f"{self.topic} still holds {len(records)} of {self.count} records: compaction is not at work")
        return f"{self.count} records of {len(self.newest)} keys are compacted to {len(records)}, the newest of each"


class Transactions(Worker):
    """Transactions over three partitions and a group's offset: all of a committed one is there, nothing of an aborted one."""

    topic, group = "soak-txn", "soak-eos"
    topics = {topic: (3, {"retention.ms": "-1"})}
    producer = None

    def __init__(self, soak):
        super().__init__(soak)
        self.sizes, self.outcomes = array("H"), []  # of each transaction; "committed", "aborted" or "unknown"
        self.position, self.positions_unsure = None, set()

    def make(self):
        # A minute's transactions of a producer that died would hold up read_committed for as long.
        producer = self.make_producer(transactional_id="soak-txn", transaction_timeout_ms=20000)
        producer.init_transactions()
        return producer

    def turn(self):
        if self.producer is None:
            self.producer = self.make()
        number, size = len(self.sizes), self.random.randrange(1, 20)
        self.sizes.append(size)
        self.outcomes.append("unknown")
        self.producer.begin_transaction()
        sent = [self.producer.send(self.topic, b"%d:%d" % (number, part), partition=self.random.randrange(3)) for part in range(size)]
        commits_offset = self.random.random() < 0.3
        if commits_offset:
            self.positions_unsure.add(number)
            self.producer.send_offsets_to_transaction({TopicPartition(self.topic, 0): OffsetAndMetadata(number, "", -1)}, ConsumerGroupMetadata(self.group, -1, "", None))
        outcome = self.random.random()
        if outcome < 0.02:
            self.fence()
        elif outcome < 0.2:
            self.producer.abort_transaction()
        else:
            self.producer.commit_transaction()
            for future in sent:
                want(future.succeeded(), f"transaction {number} is committed, a record of it is not")
        self.outcomes[number] = "aborted" if outcome < 0.2 else "committed"
        if commits_offset:
            self.positions_unsure.discard(number)
            if outcome >= 0.2:
                self.position, self.positions_unsure = number, set()
        self.count += 1

    def fence(self):
        """Another producer of the id takes over in the middle of the transaction."""
        self.producer.flush(timeout=30)
        old, self.producer = self.producer, self.make()
        try:
            old.commit_transaction()
        except ProducerFencedError:
            pass
        except Exception as error:
            want("epoch" in type(error).__name__.lower() or "fenced" in str(error).lower(), f"a fenced commit raised {error!r}")
        else:
            raise Violation("a fenced producer could commit")
        finally:
            old.close(timeout=1)

    def reset(self):
        if self.producer is not None:
            self.producer.close(timeout=5)
        self.producer = None

    def verify(self):
        parts = [0] * len(self.sizes)
        seen = set()
        for partition in range(3):
            for record in self.read(self.topic, partition, isolation_level="read_committed"):
                number = int(record.value.split(b":")[0])
                want(record.value not in seen, f"{record.value.decode()} is in {self.topic} twice")
                seen.add(record.value)
                parts[number] += 1
        for number, (size, outcome) in enumerate(zip(self.sizes, self.outcomes)):
            allowed = {"committed": {size}, "aborted": {0}, "unknown": {0, size}}[outcome]
            want(parts[number] in allowed, f"transaction {number} of {size} records is {outcome}, {parts[number]} of it can be read")
        admin = KafkaAdminClient(bootstrap_servers=self.broker)
        where = TopicPartition(self.topic, 0)
        offsets = admin.list_group_offsets({self.group: [where]})[self.group]
        admin.close()
        at = offsets[where].offset if where in offsets else None
        allowed = {self.position} | self.positions_unsure
        want(at in allowed or (at == -1 and None in allowed), f"{self.group} is at {at}, committed in transactions was {self.position}")
        count = {each: self.outcomes.count(each) for each in ("committed", "aborted", "unknown")}
        return "transactions: " + ", ".join(f"{number} {each}" for each, number in count.items())


class Group(Worker):
    """Members of one group that come and go without end; together they must see every record of the log."""

    every = 0.0
    members, name_of_group = 3, "soak-group"

    def __init__(self, soak, log):
        super().__init__(soak)
        self.log, self.alive = log, {}
        self.seen = [bytearray() for _ in range(Log.partitions)]

    def turn(self):
        now = time.monotonic()
        if len(self.alive) < self.members:
            consumer = self.make_consumer(Log.topic, group_id=self.name_of_group, auto_commit_interval_ms=2000, session_timeout_ms=10000, heartbeat_interval_ms=1000, max_poll_interval_ms=60000)
            self.alive[consumer] = now + self.random.uniform(20, 60)
            self.count += 1
        for consumer, until in list(self.alive.items()):
            for where, records in consumer.poll(timeout_ms=150).items():
                seen = self.seen[where.partition]
                end = records[-1].offset + 1
                seen.extend(bytes(max(0, end - len(seen))))
                for record in records:
                    seen[record.offset] = 1
            if until < now:
                del self.alive[consumer]
                # Without a last commit the next owner gets the records of up to two seconds once more.
                consumer.close(autocommit=self.random.random() < 0.8)

    def reset(self):
        for consumer in self.alive:
            consumer.close()
        self.alive = {}

    def missing(self):
        """Acknowledged offsets that no member has seen."""
        lists = ((partition, array("q", offsets)) for partition, (offsets, _) in enumerate(self.log.acked))
        return [(partition, each) for partition, offsets in lists for each in offsets if len(self.seen[partition]) <= each or not self.seen[partition][each]]

    def told(self):
        return f"members {self.count}"

    def verify(self):
        return f"{self.count} members of a group saw every acknowledged record of the log"


class Topics(Worker):
    """Topics that are made, written, read and deleted."""

    every = 3.0
    admin = producer = None

    def turn(self):
        if self.admin is None:
            self.admin = KafkaAdminClient(bootstrap_servers=self.broker)
            self.producer = self.make_producer(enable_idempotence=True)
        name, partitions = f"soak-topic-{self.count}", self.random.randrange(1, 7)
        self.count += 1
        self.admin.create_topics([NewTopic(name, partitions, 1)])
        try:
            sent = [(each % partitions, b"%d" % each) for each in range(20)]
            for future in [self.producer.send(name, value, partition=partition) for partition, value in sent]:
                future.get(timeout=60)
            for partition in range(partitions):
                values = [record.value for record in self.read(name, partition)]
                want(values == [value for at, value in sent if at == partition], f"{name}-{partition} holds {values}")
        finally:
            self.admin.delete_topics([name])

    def reset(self):
        for client in (self.admin, self.producer):
            if client is not None:
                client.close()
        self.admin = self.producer = None


class Connections(Worker):
    """Connections that come and go in every way, well behaved and not; some stay and say nothing."""

    every = 0.2
    idle_max = 50

    def __init__(self, soak):
        super().__init__(soak)
        self.idle = []

    def turn(self):
        host, port = self.broker.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=30)
        ask = struct.pack(">ihhih", 10, 18, 0, 7, -1)  # ApiVersions 0
        kind = self.random.randrange(6)
        self.count += 1
        if kind == 5:
            self.idle.append(connection)
            if len(self.idle) > self.idle_max:
                self.idle.pop(self.random.randrange(len(self.idle))).close()
            return
        with connection:
            if kind == 0:
                connection.sendall(ask)
                want(len(connection.recv(4)) == 4, "ApiVersions is not answered")
            elif kind == 1:
                connection.sendall(ask[: self.random.randrange(len(ask))])
            elif kind == 2:
                connection.sendall(struct.pack(">i", 200) + self.random.randbytes(200))
                connection.recv(1)
            elif kind == 3:
                connection.sendall(ask * 5)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset

    def reset(self):
        for connection in self.idle:
            connection.close()
        self.idle = []


class Processes(Worker):
    """A client program that reads the log as a member of a group of its own for a while, and is then ended, sometimes by kill -9."""

    every = 0.5
    child = None

    def __init__(self, soak, name, command, seconds):
        super().__init__(soak)
        self.name, self.command, self.seconds = name, command, seconds

    def turn(self):
        if self.child is None:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            self.until = time.monotonic() + self.random.uniform(*self.seconds)
            self.count += 1
        elif self.child.poll() is not None:
            code, self.child = self.child.returncode, None
            raise RuntimeError(f"ended by itself with {code}")
        elif self.until < time.monotonic():
            self.end(signal.SIGKILL if self.random.random() < 0.3 else signal.SIGTERM)

    def end(self, number):
        os.killpg(self.child.pid, number)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        self.child = None

    def reset(self):
        if self.child is not None:
            self.end(signal.SIGKILL)
