"""Drives a broker with kafka-python: topics, produce with each codec, consume by assignment and in groups, look up offsets.

usage: python.py HOST:PORT TOPIC

Prints one line per step; any difference is an exception and a non-zero exit.
"""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

BROKER, TOPIC = sys.argv[1], sys.argv[2]
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
COUNT = 500


def step(name, got, expected):
    if got != expected:
        raise AssertionError(f"{name}: got {got!r}, expected {expected!r}")
    print(f"{name}: ok")


def make_topic():
    admin = KafkaAdminClient(bootstrap_servers=BROKER)
    admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)])
    deadline = time.time() + 10
    while TOPIC not in admin.list_topics() and time.time() < deadline:
        time.sleep(0.02)
    step("created", TOPIC in admin.list_topics(), True)
    admin.close()


def record(number):
    key = None if number % 7 == 0 else f"key-{number}".encode()
    value = None if number % 7 == 1 else f"value-{number}".encode() * (number % 5)
    headers = [("h", f"{number}".encode()), ("empty", b"")] if number % 3 == 0 else []
    return key, value, headers


def produce(acks):
    """Sends COUNT records with each codec to partition 0 and returns when each was sent, in milliseconds."""
    times = []
    for codec in CODECS:
        producer = KafkaProducer(bootstrap_servers=BROKER, compression_type=codec, acks=acks, linger_ms=5)
        futures = []
        times.append(int(time.time() * 1000))
        for number in range(COUNT):
            key, value, headers = record(number)
            futures.append(producer.send(TOPIC, value, key, headers, partition=0, timestamp_ms=times[-1] + number))
        producer.flush(timeout=30)
        offsets = [future.get(timeout=30).offset for future in futures]
        first = len(CODECS[: CODECS.index(codec)]) * COUNT
        step(f"produced with {codec or 'no codec'}, acks={acks}", offsets, list(range(first, first + COUNT)))
        producer.close()
        time.sleep(COUNT / 1000)  # timestamps of the next round lie behind these
    return times


def read(consumer, count):
    records, deadline = [], time.time() + 30
    while len(records) < count and time.time() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            records += batch
    return records


def consume(times):
    partition = TopicPartition(TOPIC, 0)
    total = COUNT * len(CODECS)
    consumer = KafkaConsumer(bootstrap_servers=BROKER, group_id=None, enable_auto_commit=False)
    consumer.assign([partition])
    step("beginning", consumer.beginning_offsets([partition]), {partition: 0})
    step("end", consumer.end_offsets([partition]), {partition: total})

    consumer.seek_to_beginning(partition)
    records = read(consumer, total)
    step("offsets", [each.offset for each in records], list(range(total)))
    got = [(each.key, each.value, list(each.headers)) for each in records]
    step("contents", got, [record(number) for _ in CODECS for number in range(COUNT)])
    step("timestamps", [each.timestamp for each in records], [t + n for t in times for n in range(COUNT)])

    consumer.seek(partition, 777)
    step("from an offset", read(consumer, 1)[0].offset, 777)
    for index, start in enumerate(times):
        found = consumer.offsets_for_times({partition: start + 3})[partition]
        step(f"by time, round {index}", (found.offset, found.timestamp), (index * COUNT + 3, start + 3))
    later = consumer.offsets_for_times({partition: times[-1] + 10**9})[partition]
    step("by a time to come", later, None)
    consumer.close()


def member(group, **settings):
    return KafkaConsumer(TOPIC, bootstrap_servers=BROKER, group_id=group, auto_offset_reset="earliest", **settings)


def groups(total):
    group = f"{TOPIC}-group"
    first = member(group, enable_auto_commit=False)
    step("a member reads", len(read(first, total)), total)
    first.commit()
    step("committed", first.committed(TopicPartition(TOPIC, 0)), total)
    admin = KafkaAdminClient(bootstrap_servers=BROKER)
    step("listed", group in [each["group_id"] for each in admin.list_groups()], True)
    first.close()
    second = member(group)
    step("nothing is left", len(second.poll(timeout_ms=2000)), 0)
    second.close()
    admin.delete_groups([group])
    third = member(group)
    step("a deleted group begins anew", len(read(third, total)), total)
    third.close(autocommit=True)
    admin.close()


make_topic()
consume(produce("all"))
groups(COUNT * len(CODECS))
print("done")
