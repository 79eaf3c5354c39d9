import { randomBytes } from 'node:crypto'
import test from 'ava'
import { databaseContainerName } from '../../../activities/databases/names.ts'
import { hostCall } from '../../../api/hosts/host-call.ts'
import { httpHostReader } from '../../../api/hosts/host-reader.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { databaseLostWith } from '../../../policy/databases/database-problems.ts'
import { masterKey, testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { fileHost } from '../../kit/hosts/file-host.ts'

const api = testApi()

/** A database on a host of its own, whose server is real, and the reader of an API process. */
async function scene() {
  const { db, makeUser, makeDatabase } = api()
  const { id } = await makeDatabase(await makeUser())
  const hostId = `h-${randomBytes(4).toString('hex')}`
  const host = await fileHost(hostId, db)
  await db('databases').where({ id }).update({ host_id: hostId })
  const database = (await loadDatabase(db, id))!
  const name = databaseContainerName(database)
  const { engine } = host
  return {
    ...{ db, database, hostId, reader: httpHostReader(db, hostCall(db, masterKey)) },
    stop: () => host.stop(),
    row: async () => (await loadDatabase(db, id))!,
    async run(printed: string) {
      engine.networks.add('net')
      await engine.create({ name, labels: {}, command: ['-'], network: 'net', memoryMb: 512, publish: null } as never)
      await engine.start(name)
      engine.print(name, printed)
    },
  }
}

test('figures and log of a database come from its host, and the figures are stored for when it does not answer', async t => {
  const { reader, database, run, row, stop } = await scene()
  t.teardown(stop)
  t.like(await reader.stats(database), { state: null, stats: null })
  t.is(await reader.logs(database, 1000), null)
  await run('ready\n')
  const reading = await reader.stats(database)
  t.like(reading, { state: { status: 'running', running: true } })
  t.true(Number.isFinite(reading?.stats?.memoryBytes))
  t.is(await reader.logs(database, 1000), 'ready\n')
  await comesTrue(async () => (await row()).last_stats !== null)
  t.deepEqual((await row()).last_stats, JSON.parse(JSON.stringify(reading)))
})

test('a host that is away has no figures, and its log is CLUSTER_UNAVAILABLE', async t => {
  const { reader, database, db, hostId, stop } = await scene()
  await stop()
  t.is(await reader.stats(database), null)
  await t.throwsAsync(reader.logs(database, 1000), { code: 'CLUSTER_UNAVAILABLE' })
  await db('hosts')
    .where({ id: hostId })
    .update({ last_seen_at: new Date(0) })
  await t.throwsAsync(reader.logs(database, 1000), { code: 'CLUSTER_UNAVAILABLE' })
})

test('a database that is lost with its host tells every reader what to do', async t => {
  const { reader, database, stop } = await scene()
  t.teardown(stop)
  const lost = { ...database, lost_with: 'h-lost' }
  t.is(await reader.stats(lost), null)
  await t.throwsAsync(reader.logs(lost, 1000), { code: 'CLUSTER_UNAVAILABLE', message: databaseLostWith('h-lost') })
})
