// @platformatic/kafka in the client matrix.
import { readFileSync } from 'node:fs'
import { Admin, Consumer, Producer, ProduceAcks, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { run } from '../steps.mjs'

const { version } = JSON.parse(readFileSync(new URL('node_modules/@platformatic/kafka/package.json', import.meta.url)))

async function connect(broker) {
  const common = { clientId: 'matrix', bootstrapBrokers: [broker] }
  const admin = new Admin(common)
  let transactional

  async function follow(topic, groupId, mode, found) {
    const consumer = new Consumer({
      ...common, groupId, deserializers: stringDeserializers, heartbeatInterval: 500, sessionTimeout: 10_000, maxWaitTime: 200
    })
    const stream = await consumer.consume({ topics: [topic], mode, fallbackMode: 'earliest', autocommit: true })
    stream.on('error', () => {}) // its end shows in what is not read
    const seen = new Set()
    stream.on('data', ({ partition, offset, key, value, headers }) => {
      // The library hands out some records twice when it joins a group, from any broker.
      const place = `${partition}:${offset}`
      if (!seen.has(place)) found({ key, value, headers: Object.fromEntries(headers) })
      seen.add(place)
    })
    // A fetch that was under way when the group changed still brings records of partitions that others have by now.
    let partitions = 0
    stream.on('fetch', () => {
      partitions = consumer.assignments?.find(each => each.topic === topic)?.partitions.length ?? 0
    })
    const leave = async () => {
      await stream.close()
      await consumer.close(true)
    }
    return { partitions: () => partitions, leave }
  }

  const send = (producer, topic, records) =>
    producer.send({
      messages: records.map(each => ({ topic, ...each, headers: new Map(Object.entries(each.headers)) })),
      acks: ProduceAcks.ALL
    })

  return {
    create: (topic, partitions) => admin.createTopics({ topics: [topic], partitions, replicas: 1 }),
    partitions: async topic => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount,
    delete: topic => admin.deleteTopics({ topics: [topic] }),
    topics: () => admin.listTopics(),

    async produce(topic, records) {
      const producer = new Producer({ ...common, serializers: stringSerializers })
      await send(producer, topic, records)
      await producer.close()
    },

    async transact(topic, transactionalId, records, commit) {
      // A second producer of that id would be told to wait while the first transaction ends, and gives up on that.
      transactional ??= new Producer({ ...common, serializers: stringSerializers, idempotent: true, transactionalId })
      const transaction = await transactional.beginTransaction()
      await send(transaction, topic, records)
      await (commit ? transaction.commit() : transaction.abort())
    },

    async read(topic, found) {
      return (await follow(topic, `${topic}-reader`, 'earliest', found)).leave
    },

    async join(topic, group) {
      const values = []
      return { values, ...await follow(topic, group, 'committed', record => values.push(record.value)) }
    }
  }
}

await run(version, connect)
