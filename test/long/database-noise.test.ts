import test from 'ava'
import { databaseHostname } from '../../policy/databases/connection-url.ts'
import { postgresClient, postgresOptions } from '../kit/databases/postgres-customer.ts'
import { platformApart } from '../kit/noise/apart.ts'
import type { Done, Target } from '../kit/noise/database-noise-program.ts'
import { noiseProcess } from '../kit/noise/noise-process.ts'
import { assertRatios, timesAlongside } from '../kit/noise/slowdown.ts'

// How much slower a database becomes alongside one of another account at all of its limits. That the limits are there is a test of every run
// (test/workers/host/databases/database-bounds.test.ts).
const settings = { DATABASE_ENGINES: 'postgres', DISK_MB_PER_256MB: '512', HOST_FIREWALL: 'auto' }
const started = platformApart({}, { settings })

const blocks = 10
const queriesInBlock = 500
const imageSeconds = 1200
/** By part of the queries: how many times as long they may take. */
const maxRatios = [
  [0.5, 2],
  [0.95, 5],
] as const

test('a database answers alongside one of another account at its limits', async t => {
  t.timeout(1_800_000)
  const platform = await started
  async function rent() {
    const as = platform.api.as(await platform.api.makeUser())
    const body = JSON.stringify({ name: 'noise', type: 'postgres', version: '17', memory: 1024 })
    const made = await platform.until(
      async () => {
        const answer = await as.request('POST', '/v2/databases', { body })
        return answer.status === 200 && answer.body.response
      },
      imageSeconds,
      'a database',
    )
    const text = Buffer.from(made.certificate, 'base64').toString()
    const authority = text.slice(text.lastIndexOf('-----BEGIN'))
    const { port } = (await as.get(`/v2/databases/${made.id}`)).body.response
    const servername = databaseHostname(made.id, platform.base.config.databases.domain)
    return { id: made.id, remote: { host: '127.0.0.1', port, authority, servername }, password: made.password }
  }
  const [loud, quiet] = [await rent(), await rent()]
  const client = await postgresClient(postgresOptions(quiet.remote, quiet.password))
  await client.query('create table kept (n serial primary key, t text)')
  const noise = noiseProcess<Target, Done>('database-noise-program', loud)
  t.teardown(noise.kill)
  const times = await timesAlongside({
    ...{ noise, blocks, actsInBlock: queriesInBlock, settleMs: 3000 },
    async act() {
      await client.query("insert into kept (t) values ('a row that is synced')")
      await client.query('select count(*) from kept where n % 7 = 0')
    },
  })
  const done = await noise.stop()
  await client.end()
  assertRatios(t, times, maxRatios)
  t.log(`the noise: ${JSON.stringify(done)}`)
  for (const [kind, count] of Object.entries(done)) t.true(count > 0, kind)
  // It answered each of its queries, and no engine but the loud one was ended.
  const row = await platform.db('databases').where({ id: quiet.id }).first()
  t.like(row, { status: 'running', restarts: 0, exit_oom: null })
})
