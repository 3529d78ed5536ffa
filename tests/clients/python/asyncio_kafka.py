"""aiokafka in the client matrix. Its calls run one by one on an event loop; between them its own tasks stand still."""

import asyncio

import aiokafka
import steps
from aiokafka.admin import AIOKafkaAdminClient, NewTopic


class Client:
    def __init__(self, broker, member_settings):
        self.common = {"bootstrap_servers": broker}
        self.member_settings = member_settings
        self.loop = asyncio.new_event_loop()
        self.admin = self.call(self.started(AIOKafkaAdminClient))

    def call(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, steps.LIMIT))

    async def started(self, kind, *arguments, **settings):
        it = kind(*arguments, **self.common, **settings)
        await it.start()
        return it

    def create(self, topic, partitions):
        answer = self.call(self.admin.create_topics([NewTopic(topic, partitions, 1)]))
        check(answer.topic_errors)

    def partitions(self, topic):
        return len(self.call(self.admin.describe_topics([topic]))[0]["partitions"])

    def delete(self, topic):
        check(self.call(self.admin.delete_topics([topic])).topic_error_codes)

    def topics(self):
        return self.call(self.admin.list_topics())

    def produce(self, topic, records):
        producer = self.call(self.started(aiokafka.AIOKafkaProducer, enable_idempotence=True))
        self.call(send(producer, topic, records))
        self.call(producer.stop())

    def transact(self, topic, id, records, commit):
        producer = self.call(self.started(aiokafka.AIOKafkaProducer, transactional_id=id))
        self.call(producer.begin_transaction())
        self.call(send(producer, topic, records))
        self.call(producer.commit_transaction() if commit else producer.abort_transaction())
        self.call(producer.stop())

    def read(self, topic):
        start = self.started(
            aiokafka.AIOKafkaConsumer, topic, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        consumer = self.call(start)
        try:
            while True:
                yield [
                    steps.Record(each.key.decode(), each.value.decode(), dict(each.headers))
                    for each in self.messages(consumer)
                ]
        finally:
            self.call(consumer.stop())

    def messages(self, consumer):
        return [each for some in self.call(consumer.getmany(timeout_ms=100)).values() for each in some]

    def join(self, topic, group):
        return Member(self, topic, group)


class Member:
    def __init__(self, client, topic, group):
        self.client = client
        self.consumer = client.call(
            client.started(
                aiokafka.AIOKafkaConsumer, topic, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
                heartbeat_interval_ms=500, **client.member_settings,
            )
        )

    def poll(self):
        return [each.value.decode() for each in self.client.messages(self.consumer)]

    def partitions(self):
        return len(self.consumer.assignment())

    def leave(self):
        self.client.call(self.consumer.commit())
        self.client.call(self.consumer.stop())


async def send(producer, topic, records):
    sent = []
    for each in records:
        sent.append(await producer.send(topic, each.value.encode(), each.key.encode(), headers=list(each.headers.items())))
    await asyncio.gather(*sent)


def check(answers):
    for topic, code, *_ in answers:
        if code:
            raise aiokafka.errors.for_code(code)(topic)


steps.run(aiokafka.__version__, Client)
