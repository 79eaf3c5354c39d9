import test from 'ava'
import { storeCertificates } from '../../../db/databases/authorities.ts'
import { loadDatabase } from '../../../db/databases/databases.ts'
import { newId } from '../../../policy/ids.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { renewalsOnce } from '../../../workers/loops/certificate-renewals.ts'
import { logLines } from '../../kit/log-sink.ts'
import { makeDatabase } from '../../kit/rows/databases.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))
const dayMs = 86_400_000

/** Databases that run, and a clock; their certificates are due on the day 264. */
async function scene() {
  const { db } = await database
  await db('operations').delete()
  await db('databases').delete()
  const make = rows(db)
  await make.host('h1')
  const { id: ownerId } = await make.user()
  const begin = Date.now()
  const at = (day: number) => new Date(begin + day * dayMs)
  const { log, lines } = logLines<{ databaseId?: string; attempt?: number }>()
  async function running(changes: Record<string, unknown> = {}): Promise<string> {
    await db('hosts').update({ last_seen_at: db.fn.now() })
    const { id } = await makeDatabase(db, keys, ownerId)
    const dates = { certificate_ends_at: at(396), certificate_renew_at: at(264) }
    await db('databases')
      .where({ id })
      .update({ ...dates, ...changes })
    return id
  }
  return {
    ...{ db, at, running, lines },
    row: async (id: string) => (await loadDatabase(db, id))!,
    async round(day: number): Promise<string[]> {
      await db('hosts').update({ last_seen_at: db.fn.now() })
      return (await renewalsOnce({ db, keys, log, now: () => at(day) })).map(({ id }) => id)
    },
    queued: (id: string) =>
      db('operations').where({ target_id: id, kind: 'certify' }).orderBy('seq').select('kind', 'actor', 'state'),
    ends: (id: string, state: 'success' | 'error') =>
      db('operations').where({ target_id: id, state: 'queued' }).update({ state, finished_at: db.fn.now() }),
  }
}

test.serial('certificates are renewed once they are due, and not again before they are due again', async t => {
  const { db, at, running, row, round, queued, ends } = await scene()
  const id = await running()
  t.deepEqual(await round(263.9), [])
  t.deepEqual(await round(264), [id])
  t.deepEqual(await queued(id), [{ kind: 'certify', actor: 'renewal', state: 'queued' }])
  t.deepEqual(await round(300), [], 'while it waits or runs')
  const next = { certificate: 'new', client: 'new', endsAt: at(661), renewAt: at(529) }
  await storeCertificates(db, id, keys, next)
  await ends(id, 'success')
  t.like(await row(id), { renewal_failures: 0, certificate_renew_at: at(529) })
  t.deepEqual(await round(528), [])
  t.deepEqual(await round(529), [id])
})

test.serial('a renewal that fails is tried again after 10 minutes, 1 h, 6 h, and then each day', async t => {
  const { running, row, round, ends, at, lines } = await scene()
  const id = await running()
  let day = 264
  for (const [n, seconds] of [600, 3600, 21_600, 86_400, 86_400].entries()) {
    t.deepEqual(await round(day), [id])
    await ends(id, 'error')
    t.like(await row(id), {
      renewal_failures: n + 1,
      certificate_renew_at: new Date(at(day).getTime() + seconds * 1000),
    })
    t.deepEqual(await round(day + (seconds - 1) / 86_400), [])
    day += seconds / 86_400
  }
  const warnings = lines.filter(({ level }) => level === 40).map(({ databaseId, attempt }) => [databaseId, attempt])
  t.deepEqual(
    warnings,
    [2, 3, 4, 5].map(attempt => [id, attempt]),
  )
})

test.serial('a stopped database waits for its next start, and one that is lost or busy is not touched', async t => {
  const { db, running, round, queued } = await scene()
  const stopped = await running({ status: 'exited', desired_state: 'stopped' })
  const down = await running({ status: 'exited' })
  const leaving = await running({ desired_state: 'deleted' })
  const lost = await running({ lost_with: 'h9' })
  const without = await running({ certificate_renew_at: null })
  const busy = await running()
  const operationId = newId()
  await db('operations').insert({
    ...{ id: operationId, target_type: 'database', target_id: busy, kind: 'snapshot', state: 'running' },
    ...{ owner_id: (await loadDatabase(db, busy))!.owner_id, actor: 'x', input: '{}' },
  })
  t.deepEqual(await round(300), [])
  await db('operations').where({ id: operationId }).update({ state: 'success' })
  t.deepEqual(await round(300), [busy])
  for (const id of [stopped, down, leaving, lost, without]) t.deepEqual(await queued(id), [])
  await db('databases').where({ id: stopped }).update({ status: 'running', desired_state: 'running' })
  await db('hosts').update({ last_seen_at: new Date(0) })
  const silent = await renewalsOnce({ db, keys, log: logLines().log, now: () => new Date(Date.now() + 300 * dayMs) })
  t.deepEqual(silent, [], 'its host does not answer')
  t.deepEqual(await round(300), [stopped])
})

test.serial('a round begins ten renewals at most, the longest due first', async t => {
  const { db, at, running, round } = await scene()
  const ids: string[] = []
  for (let n = 0; n < 12; n++) ids.push(await running({ certificate_renew_at: at(100 - n) }))
  t.deepEqual(await round(200), ids.toReversed().slice(0, 10))
  t.deepEqual(await round(200), ids.slice(0, 2).toReversed())
  t.is(Number((await db('operations').where({ kind: 'certify' }).count())[0]!.count), 12)
})

test.serial(
  'the next authority is made by the first round that finds it due, and an unreadable one holds up no renewal',
  async t => {
    const { db, running, round } = await scene()
    await db('authorities').delete()
    t.deepEqual(await round(0), [])
    t.deepEqual(await db('authorities'), [], 'without databases there is none')
    const id = await running()
    await round(0)
    t.is((await db('authorities')).length, 1)
    await round(2434)
    t.deepEqual((await db('authorities').pluck('name')).sort(), ['databases', 'databases-2'])
    await db('operations').update({ state: 'success' })
    await db('authorities').update({ key_sealed: Buffer.from('01', 'hex') })
    await db('databases').where({ id }).update({ certificate_renew_at: new Date() })
    t.deepEqual(await round(2435), [id])
  },
)
