import test from 'ava'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import { postgresClient, postgresOptions } from '../../kit/databases/postgres-customer.ts'
import { testPlatform } from '../../kit/platform/platform.ts'

const started = testPlatform({ settings: { DATABASE_ENGINES: 'postgres', DISK_MB_PER_256MB: '256' } })

/** Without a cache the image is created first, alongside the other tests. */
const imageSeconds = 1200

test('a postgres goes back to the moment before a dropped table, and from there to any other, also while it is stopped', async t => {
  t.timeout(1_500_000)
  const platform = await started
  const as = platform.api.as(await platform.api.makeUser())
  await platform.until(
    async () => (await platform.db('hosts').first('database_images')).database_images['berth/postgres:17'] === 'ready',
    imageSeconds,
    'the image of Postgres',
  )
  const created = await as.request('POST', '/v2/databases', {
    body: JSON.stringify({ name: 'orders', type: 'postgres', version: '17', memory: 1024 }),
  })
  t.is(created.status, 200, created.text)
  const { id, password, certificate } = created.body.response
  const path = `/v2/databases/${id}`
  const { port } = (await as.get(path)).body.response
  const remote: RemoteEngine = {
    ...{ host: '127.0.0.1', port, servername: databaseHostname(id, platform.base.config.databases.domain) },
    authority: Buffer.from(certificate, 'base64')
      .toString()
      .split(/(?<=-----END [A-Z ]+-----\n)/)[2]!,
  }
  /** One statement, and the engine's time after it: a Date has whole milliseconds, and one that is cut off would be before it. */
  const query = async (statement: string) => {
    const client = await postgresClient(postgresOptions(remote, password))
    const { rows } = await client.query(statement)
    const time = await client.query("select clock_timestamp() + interval '1 millisecond' as at")
    await client.end()
    return { rows, at: time.rows[0].at as Date }
  }
  const restore = async (timestamp: Date) => {
    const answer = await as.request('POST', `${path}/snapshots/restore`, { body: JSON.stringify({ timestamp }) })
    t.is(answer.status, 200, answer.text)
  }
  const restorable = async () => (await as.get(path)).body.response.restorable as { from: string; to: string }[]

  await platform.until(async () => (await restorable()).length > 0, 120, 'the first base backup')
  await query('create table orders (n int)')
  const first = await query('insert into orders select generate_series(1, 1000)')
  const dropped = await query('drop table orders')
  const later = await query('create table afterwards (n int)')

  await restore(first.at)
  t.deepEqual((await query('select count(*)::int as n from orders')).rows, [{ n: 1000 }])
  t.deepEqual((await query("select to_regclass('afterwards') as name")).rows, [{ name: null }])
  await query('insert into orders values (1001)')

  await restore(later.at)
  const names = await query("select to_regclass('afterwards')::text as later, to_regclass('orders') as orders")
  t.deepEqual(names.rows, [{ later: 'afterwards', orders: null }], 'a moment before the restore, of what was replaced')

  t.is((await as.post(`${path}/stop`)).status, 200)
  await restore(dropped.at)
  t.like((await as.get(`${path}/status`)).body.response, { running: false })
  t.is((await as.post(`${path}/start`)).status, 200)
  t.deepEqual((await query("select to_regclass('afterwards') as later")).rows, [{ later: null }])
  const early = { timestamp: new Date(Date.parse((await restorable())[0]!.from) - 60_000) }
  const refused = await as.request('POST', `${path}/snapshots/restore`, { body: JSON.stringify(early) })
  t.deepEqual([refused.status, refused.body.code], [400, 'INVALID_PARAMETERS'])
})
