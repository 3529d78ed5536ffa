// Runs the steps of the client matrix, which ../matrix describes, with whatever client it is given.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

const limit = 30_000 // ms, for whatever is waited for
const count = 200 // records that the step produce sends

/* A client brings, all but read with a promise:
   create(topic, partitions), partitions(topic), delete(topic), topics();
   produce(topic, records), records with key, value and headers; transact(topic, id, records, commit), one whole transaction;
   read(topic, found), which calls found with a topic's committed records from its beginning and answers with a function to stop it;
   join(topic, group), a member with partitions(), values and leave(), which commits. */
export async function run(version, connect) {
  const [broker, name] = process.argv.slice(2)
  if (name === undefined) {
    console.error(`usage: ${process.argv[1]} HOST:PORT NAME`)
    process.exit(2)
  }
  console.log('version', version)
  const client = await connect(broker)
  for (const step of [admin, produce, headers, group, rebalance, transaction]) {
    try {
      await step(client, name)
      console.log(step.name, 'ok')
    } catch (error) {
      console.log(step.name, 'fail', String(error).replace(/\s+/g, ' '), String(error.errors ?? error.cause ?? '').replace(/\s+/g, ' '))
    }
  }
  process.exit() // whatever a library still has under way
}

async function admin(client, name) {
  const topic = `${name}-gone`
  await client.create(topic, 3)
  assert.equal(await client.partitions(topic), 3)
  await client.delete(topic)
  await wait('the topic is gone', async () => !(await client.topics()).includes(topic))
}

const numbers = n => [...Array(n).keys()]
const sent = () => numbers(count).map(i => ({ key: `key-${i}`, value: `value-${i}`, headers: { number: `${i}`, empty: '' } }))
const words = (word, n) => numbers(n).map(i => `${word}-${String(i).padStart(3, '0')}`)
const records = (word, n) => words(word, n).map(value => ({ key: value, value, headers: {} }))

async function produce(client, name) {
  await client.create(name, 4)
  await client.produce(name, sent())
  client.seen = await collect(client, name, count)
  const contents = all => all.map(each => `${each.key}=${each.value}`).sort()
  assert.deepEqual(contents(client.seen), contents(sent()))
}

async function headers(client) {
  const byKey = all => Object.fromEntries(all.map(each => [each.key, each.headers]))
  assert.deepEqual(byKey(client.seen ?? []), byKey(sent()))
}

async function group(client, name) {
  const first = await client.join(name, `${name}-group`)
  await wait('the first member reads all', () => first.values.length >= count)
  await first.leave()
  await client.produce(name, records('later', 1))
  const second = await client.join(name, `${name}-group`)
  await wait('the second member reads', () => second.values.length > 0)
  assert.deepEqual(second.values, ['later-000'])
  await second.leave()
}

async function rebalance(client, name) {
  const topic = `${name}-shared`
  await client.create(topic, 4)
  const first = await client.join(topic, topic)
  await wait('the first member has all', () => first.partitions() === 4)
  const second = await client.join(topic, topic)
  await wait('they share', () => first.partitions() === 2 && second.partitions() === 2)
  await client.produce(topic, records('shared', 40))
  await wait('they read all', () => first.values.length + second.values.length >= 40)
  assert.deepEqual([...first.values, ...second.values].sort(), words('shared', 40))
  await second.leave()
  await wait('the first has all again', () => first.partitions() === 4)
  await first.leave()
}

async function transaction(client, name) {
  const topic = `${name}-transactions`
  await client.create(topic, 1)
  await client.transact(topic, topic, records('aborted', 10), false)
  await client.transact(topic, topic, records('committed', 10), true)
  assert.deepEqual((await collect(client, topic, 10)).map(each => each.value), words('committed', 10))
}

async function collect(client, topic, n) {
  const seen = []
  const stop = await client.read(topic, record => seen.push(record))
  await wait(`${n} records are read`, () => seen.length >= n)
  await stop()
  return seen
}

async function wait(what, holds) {
  for (const late = Date.now() + limit; !(await holds()); await sleep(20)) {
    if (Date.now() > late) throw new Error(`not in ${limit} ms: ${what}`)
  }
}
