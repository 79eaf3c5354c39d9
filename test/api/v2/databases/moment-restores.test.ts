import test from 'ava'
import { findOperation } from '../../../../db/operations/operations.ts'
import { newId } from '../../../../policy/ids.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'

const api = testApi()

const post = (user: TestUser, path: string, body: object) =>
  api()
    .as(user)
    .request('POST', path, { body: JSON.stringify(body) })

/** A Postgres that can be restored to any second since `from`. */
async function scene(from: Date) {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana, { engine: 'postgres' })
  const { db } = api()
  const segment_id = newId()
  await db('segments').insert({ id: segment_id, state: 'stored', refs: 1 })
  await db('databases')
    .where({ id })
    .update({ created_at: new Date(from.getTime() - 60_000) })
  const backup = { id: newId(), database_id: id, generation: 1, timeline: 1, first_file: 3, segment_id, size: 10 }
  await db('database_backups').insert({ ...backup, from_at: from })
  const restorable = async () => (await api().as(ana).get(`/v2/databases/${id}`)).body.response.restorable
  return { ana, id, db, restorable, path: `/v2/databases/${id}/snapshots/restore` }
}

test.serial('a restore to a moment is queued with it, and the info says which moments there are', async t => {
  const from = new Date(Date.now() - 3_600_000)
  const { ana, id, db, path } = await scene(from)
  const { restorable } = (await api().as(ana).get(`/v2/databases/${id}`)).body.response
  t.is(restorable.length, 1)
  t.is(restorable[0].from, from.toISOString())
  t.true(Math.abs(new Date(restorable[0].to).getTime() - Date.now()) < 60_000)
  const second = new Date(from.getTime() + 1000).toISOString()
  for (const [timestamp, to] of [
    [`${second.slice(0, -1)}000Z`, second],
    ['2026-01-02T03:04:05+02:00', null],
  ] as const) {
    const answer = await post(ana, path, { timestamp })
    if (to === null) {
      t.is(answer.body.code, 'INVALID_PARAMETERS')
      t.true(answer.text.includes(`2026-01-02T01:04:05.000Z`) && answer.text.includes(from.toISOString()), answer.text)
      continue
    }
    t.is(answer.status, 200, answer.text)
    const operation = await findOperation(db, String(answer.headers.get('x-operation-id')))
    t.like(operation, { target_id: id, kind: 'restore', input: { to } })
  }
})

test.serial(
  'of a host that is silent only what is stored can be restored, and without files a broken backup cannot',
  async t => {
    const from = new Date(Date.now() - 3_600_000)
    const { id, db, restorable } = await scene(from)
    const to = new Date(from.getTime() + 600_000)
    await db('database_backups').where({ database_id: id }).update({ last_file: 4, to_at: to })
    const { host_id } = await db('databases').where({ id }).first()
    const seen = (at: Date) => db('hosts').where({ id: host_id }).update({ last_seen_at: at })
    t.true(new Date((await restorable())[0].to) > new Date(Date.now() - 60_000))
    await seen(new Date(0))
    t.deepEqual(await restorable(), [{ from: from.toISOString(), to: to.toISOString() }])
    await db('database_backups').where({ database_id: id }).update({ last_file: null, to_at: null })
    t.deepEqual(await restorable(), [])
    await seen(new Date())
    t.is((await restorable()).length, 1)
    await db('database_backups').where({ database_id: id }).update({ broken: true })
    t.deepEqual(await restorable(), [])
  },
)

test.serial(
  'a moment that is malformed, of the future, of another engine or together with a snapshot is refused',
  async t => {
    const { ana, path, db, id } = await scene(new Date(Date.now() - 3_600_000))
    const refused = async (body: object) => {
      const answer = await post(ana, path, body)
      t.is(answer.status, 400, answer.text)
      return answer.body.code
    }
    for (const timestamp of [
      ...['', 'yesterday', '2026-11-27', '2026-11-27T10:00:00', '2026-02-30T10:00:00Z', '2026-11-27 10:00:00Z'],
      ...[
        `2026-11-27T10:00:00Z' --`,
        1,
        null,
        {},
        '9999-12-31T23:59:59Z',
        new Date(Date.now() - 60_000).toISOString().replace('Z', '001Z'),
        new Date(Date.now() + 3_600_000).toISOString(),
      ],
    ])
      t.is(await refused({ timestamp }), 'INVALID_PARAMETERS', JSON.stringify(timestamp))
    const timestamp = new Date().toISOString()
    t.is(
      await refused({ timestamp, snapshotId: `${id}_postgres_manual`, versionId: 'x'.repeat(32) }),
      'INVALID_PARAMETERS',
    )
    t.is(await refused({}), 'MISSING_PARAMETERS')
    t.is(await refused({ snapshotId: `${id}_postgres_manual` }), 'MISSING_PARAMETERS')
    const { id: redis } = await api().makeDatabase(ana, { engine: 'redis' })
    const other = await post(ana, `/v2/databases/${redis}/snapshots/restore`, { timestamp })
    t.like(other.body, { code: 'INVALID_PARAMETERS' })
    t.false('restorable' in (await api().as(ana).get(`/v2/databases/${redis}`)).body.response)
    t.deepEqual(await db('operations').where({ target_id: id, kind: 'restore' }), [])
  },
)
