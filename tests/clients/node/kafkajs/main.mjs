// KafkaJS in the client matrix. It has no reading without a group.
import { createRequire } from 'node:module'
import kafkajs from 'kafkajs'
import { run } from '../steps.mjs'

const { version } = createRequire(import.meta.url)('kafkajs/package.json')
const text = headers => Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, String(value)]))

async function connect(broker) {
  const kafka = new kafkajs.Kafka({ brokers: [broker], logLevel: kafkajs.logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()

  async function follow(topic, groupId, found) {
    const consumer = kafka.consumer({ groupId, sessionTimeout: 10_000, heartbeatInterval: 500, maxWaitTimeInMs: 200 })
    let partitions = 0
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { partitions = payload.memberAssignment[topic]?.length ?? 0 })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ message: { key, value, headers } }) =>
        found({ key: String(key), value: String(value), headers: text(headers) })
    })
    return { partitions: () => partitions, leave: () => consumer.disconnect() }
  }

  async function send(producer, topic, messages) {
    await producer.send({ topic, messages, acks: -1 })
  }

  return {
    create: (topic, numPartitions) => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1 }] }),
    partitions: async topic => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
    delete: topic => admin.deleteTopics({ topics: [topic] }),
    topics: () => admin.listTopics(),

    async produce(topic, records) {
      const producer = kafka.producer()
      await producer.connect()
      await send(producer, topic, records)
      await producer.disconnect()
    },

    async transact(topic, transactionalId, records, commit) {
      const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
      await producer.connect()
      const transaction = await producer.transaction()
      await send(transaction, topic, records)
      await (commit ? transaction.commit() : transaction.abort())
      await producer.disconnect()
    },

    async read(topic, found) {
      return (await follow(topic, `${topic}-reader`, found)).leave
    },

    async join(topic, group) {
      const values = []
      return { values, ...await follow(topic, group, record => values.push(record.value)) }
    }
  }
}

await run(version, connect)
