"""confluent-kafka (librdkafka) in the client matrix."""

from importlib.metadata import version

import steps
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, NewTopic

LIMIT = steps.LIMIT


class Client:
    def __init__(self, broker, member_settings):
        self.common = {"bootstrap.servers": broker}
        self.member_settings = member_settings
        self.admin = AdminClient(self.common)

    def create(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LIMIT)

    def partitions(self, topic):
        return len(self.admin.list_topics(topic, timeout=LIMIT).topics[topic].partitions)

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(LIMIT)

    def topics(self):
        return self.admin.list_topics(timeout=LIMIT).topics

    def produce(self, topic, records):
        producer = Producer({**self.common, "enable.idempotence": True})
        self.send(producer, topic, records)

    def send(self, producer, topic, records):
        failures = []
        for each in records:
            producer.produce(
                topic, each.value, each.key, headers=each.headers, callback=lambda error, _: error and failures.append(error)
            )
        if producer.flush(LIMIT) or failures:
            raise KafkaException(f"not delivered: {failures}")

    def transact(self, topic, id, records, commit):
        producer = Producer({**self.common, "transactional.id": id})
        producer.init_transactions(LIMIT)
        producer.begin_transaction()
        self.send(producer, topic, records)
        producer.commit_transaction(LIMIT) if commit else producer.abort_transaction(LIMIT)

    def read(self, topic):
        consumer = Consumer({**self.common, "group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(self.partitions(topic))])
        try:
            while True:
                yield [
                    steps.Record(each.key().decode(), each.value().decode(), dict(each.headers() or []))
                    for each in messages(consumer)
                ]
        finally:
            consumer.close()

    def join(self, topic, group):
        return Member(topic, {**self.common, "group.id": group, "auto.offset.reset": "earliest", **self.member_settings})


class Member:
    def __init__(self, topic, settings):
        self.consumer = Consumer({**settings, "enable.auto.commit": False})
        self.consumer.subscribe([topic])

    def poll(self):
        return [each.value().decode() for each in messages(self.consumer)]

    def partitions(self):
        return len(self.consumer.assignment())

    def leave(self):
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since partitions came back
                raise
        self.consumer.close()


def messages(consumer):
    some = consumer.consume(500, timeout=0.1)
    for each in some:
        if each.error():
            raise KafkaException(each.error())
    return some


steps.run(f"{version('confluent-kafka')} (librdkafka {libversion()[0]})", Client)
