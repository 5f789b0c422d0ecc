// A tour through a broker with kafkajs, Node's own implementation of the protocol: `node tour.js HOST:PORT`.
//
// Each step prints one line of JSON, `{"step": NAME, ...}`, with what the broker let it see; the test knows what that
// must be. An error ends the program with 1, and its stack is on stderr.

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const RECORDS = 200
const PARTITIONS = 4
const FIRST_TIME = 1_700_000_000_000
// The records are old, and must stay.
const FOR_EVER = { name: 'retention.ms', value: '-1' }
const LIMIT = 60_000 // milliseconds, of each wait
const ORDERS = 'orders'
const COPIES = 'copies'
// A member learns of another one by its heartbeats.
const MEMBER = { heartbeatInterval: 100, sessionTimeout: 30_000, maxWaitTimeInMs: 200 }

const kafka = new Kafka({ brokers: [process.argv[2]], clientId: 'tour', logLevel: logLevel.ERROR })

const tell = (step, facts) => console.log(JSON.stringify({ step, ...facts }))

async function until (what, happened) {
  const end = Date.now() + LIMIT
  while (!await happened()) {
    if (Date.now() > end) throw new Error(`waited ${LIMIT} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

const byPartition = entries => [...entries].sort((one, other) => one.partition - other.partition)

// A consumer that has joined its group, with what it was given.
async function member (options, subscription, run) {
  const consumer = kafka.consumer({ ...MEMBER, ...options })
  const seat = { consumer, given: [] }
  consumer.on(consumer.events.GROUP_JOIN, event => { seat.given = event.payload.memberAssignment[subscription] ?? [] })
  consumer.on(consumer.events.CRASH, event => { seat.crash = event.payload.error })
  await consumer.connect()
  await consumer.subscribe({ topics: [subscription], fromBeginning: true })
  await consumer.run(run(consumer))
  return seat
}

async function makeTopics (admin) {
  const topics = [
    { topic: ORDERS, numPartitions: PARTITIONS, configEntries: [FOR_EVER, { name: 'max.message.bytes', value: '900000' }] },
    { topic: COPIES, numPartitions: 1 }
  ]
  const made = await admin.createTopics({ topics })
  const again = await admin.createTopics({ topics })
  tell('topics', { made, again, names: (await admin.listTopics()).filter(name => !name.startsWith('__')).sort() })
}

async function produce () {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const messages = Array.from({ length: RECORDS }, (_, number) => ({
    key: `key-${number}`,
    value: `value-${number}`,
    partition: number % PARTITIONS,
    timestamp: String(FIRST_TIME + number),
    headers: { number: String(number) }
  }))
  const answers = []
  // In two requests, so that the producer's sequence numbers go on.
  for (const half of [messages.slice(0, RECORDS / 2), messages.slice(RECORDS / 2)]) {
    answers.push(...await producer.send({ topic: ORDERS, messages: half, compression: CompressionTypes.GZIP }))
  }
  await producer.disconnect()
  tell('produced', {
    errors: answers.filter(answer => answer.errorCode !== 0),
    offsets: byPartition(answers).map(answer => [answer.partition, Number(answer.baseOffset)])
  })
}

// Two members read what is produced when they are there, and commit; then one of them goes.
async function readInAGroup (admin) {
  const groupId = 'readers'
  const seen = []
  const run = consumer => ({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      seen.push({
        partition,
        offset: Number(message.offset),
        key: message.key.toString(),
        value: message.value.toString(),
        time: Number(message.timestamp) - FIRST_TIME,
        header: message.headers.number.toString()
      })
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
    }
  })
  const first = await member({ groupId }, ORDERS, run)
  const second = await member({ groupId }, ORDERS, run)
  await until('each of two members has a half', () => first.given.length === 2 && second.given.length === 2)
  await produce()
  await until('every record is read', () => seen.length >= RECORDS)
  const committed = async () => byPartition((await admin.fetchOffsets({ groupId, topics: [ORDERS] }))[0].partitions)
    .map(({ partition, offset }) => [partition, Number(offset)])
  await until('all is committed', async () => (await committed()).every(([, offset]) => offset === RECORDS / PARTITIONS))
  const { groups: [group] } = await admin.describeGroups([groupId])
  const given = [...first.given, ...second.given].sort()
  await second.consumer.disconnect()
  await until('the one that is left has all', () => first.given.length === PARTITIONS)
  await first.consumer.disconnect()
  const { groups: [empty] } = await admin.describeGroups([groupId])
  tell('group', {
    state: group.state,
    protocol: group.protocol,
    members: group.members.length,
    given,
    records: seen.sort((one, other) => one.partition - other.partition || one.offset - other.offset),
    committed: await committed(),
    afterwards: empty.state,
    crashes: [first.crash, second.crash].filter(Boolean).map(String),
    listed: (await admin.listGroups()).groups.filter(each => each.groupId === groupId)
  })
}

// Every batch is copied twice in a transaction with its offsets: the first is aborted, the second is committed.
async function copyInTransactions (admin) {
  const groupId = 'copiers'
  const producer = kafka.producer({ transactionalId: 'copier', idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  let copied = 0
  const copier = await member({ groupId, maxBytesPerPartition: 2_000 }, ORDERS, () => ({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      for (const ending of ['abort', 'commit']) {
        const transaction = await producer.transaction()
        await transaction.send({
          topic: COPIES,
          messages: batch.messages.map(({ key, value }) => ({ key, value: `${ending} ${value}` }))
        })
        await transaction.sendOffsets({
          consumerGroupId: groupId,
          topics: [{
            topic: batch.topic,
            partitions: [{ partition: batch.partition, offset: String(Number(batch.lastOffset()) + 1) }]
          }]
        })
        await transaction[ending]()
      }
      resolveOffset(batch.lastOffset())
      copied += batch.messages.length
    }
  }))
  await until('all is copied', () => copied === RECORDS)
  await copier.consumer.disconnect()
  await producer.disconnect()
  const [{ partitions: committed }] = await admin.fetchOffsets({ groupId, topics: [ORDERS] })
  tell('copied', {
    committed: byPartition(committed).map(({ partition, offset }) => [partition, Number(offset)]),
    readCommitted: await valuesOf('of-committed', false, RECORDS),
    readUncommitted: await valuesOf('of-all', true, 2 * RECORDS)
  })
}

// The first ones that a reader of the copies sees; an aborted record comes before the committed one of its batch.
async function valuesOf (groupId, readUncommitted, number) {
  const values = []
  const reader = await member({ groupId, readUncommitted }, COPIES, () => ({
    eachMessage: async ({ message }) => { values.push(message.value.toString()) }
  }))
  await until(`${number} copies are read`, () => values.length >= number)
  await reader.consumer.disconnect()
  return values.sort()
}

async function administer (admin) {
  const { brokers, controller, clusterId } = await admin.describeCluster()
  tell('cluster', { brokers: brokers.map(({ host, port }) => `${host}:${port}`), controller, clusterId: typeof clusterId })

  const resource = { type: ConfigResourceTypes.TOPIC, name: ORDERS }
  const configs = async () => {
    const { resources: [{ configEntries }] } = await admin.describeConfigs({
      resources: [{ ...resource, configNames: ['retention.ms', 'max.message.bytes', 'delete.retention.ms'] }]
    })
    return configEntries.map(({ configName, configValue, isDefault }) => [configName, configValue, isDefault]).sort()
  }
  const before = await configs()
  await admin.alterConfigs({
    resources: [{ ...resource, configEntries: [FOR_EVER, { name: 'delete.retention.ms', value: '5000' }] }]
  })
  // Apache Kafka answers before it has the change.
  await until('the configs are others', async () => JSON.stringify(await configs()) !== JSON.stringify(before))
  tell('configs', { before, after: await configs() })

  const offsetsAt = async time => byPartition(await admin.fetchTopicOffsetsByTimestamp(ORDERS, time))
    .map(({ partition, offset }) => [partition, Number(offset)])
  const ends = async () => byPartition(await admin.fetchTopicOffsets(ORDERS))
    .map(({ partition, low, high }) => [partition, Number(low), Number(high)])
  tell('offsets', {
    first: await offsetsAt(0),
    amid: await offsetsAt(FIRST_TIME + RECORDS / 2 + 1),
    // kafkajs asks for the end of a partition whose records are all older.
    late: await offsetsAt(FIRST_TIME + RECORDS),
    ends: await ends()
  })

  await admin.deleteTopicRecords({ topic: ORDERS, partitions: [{ partition: 0, offset: '30' }, { partition: 1, offset: '-1' }] })
  await admin.createPartitions({ topicPartitions: [{ topic: ORDERS, count: PARTITIONS + 1 }] })
  // Apache Kafka answers before it has the partition.
  await until('there is one partition more', async () => (await ends().catch(() => [])).length > PARTITIONS)
  tell('changed', { ends: await ends() })

  await admin.setOffsets({ groupId: 'readers', topic: ORDERS, partitions: [{ partition: 2, offset: '7' }] })
  const [{ partitions: set }] = await admin.fetchOffsets({ groupId: 'readers', topics: [ORDERS] })
  const deleted = await admin.deleteGroups(['readers'])
  const { groups: [gone] } = await admin.describeGroups(['readers'])
  tell('groups', { set: Number(set.find(({ partition }) => partition === 2).offset), deleted, gone: gone.state })

  await admin.deleteTopics({ topics: [ORDERS, COPIES] })
  tell('deleted', { names: (await admin.listTopics()).filter(name => !name.startsWith('__')) })
}

async function main () {
  const admin = kafka.admin()
  await admin.connect()
  await makeTopics(admin)
  await readInAGroup(admin)
  await copyInTransactions(admin)
  await administer(admin)
  await admin.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
