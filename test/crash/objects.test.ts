import test from 'ava'
import { transaction } from '../../db/database.ts'
import { recountUsage } from '../../db/objects/blob-usage.ts'
import { objectName } from '../../policy/objects/object-names.ts'
import { actors, type TestUser } from '../kit/actors/api.ts'
import { formOf } from '../kit/actors/sent-files.ts'
import { diesAt } from '../kit/crash/crash-kit.ts'
import { contentOf } from '../kit/objects/objects.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const started = testPlatform({ worker: false, hosts: {} })

/** The blob API in a process that will die at a point, and in one that lives. */
async function doomed(point: string) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const { api, blobUrl } = await platform.startApiProcess({ CRASH_POINT: point })
  const [dying, living] = [actors(blobUrl).as(ana), platform.api.blobAs(ana)]
  return { platform, ana, api, dying, living }
}

async function textOf(id: string): Promise<string | undefined> {
  const { db, base } = await started
  return (await contentOf({ db, store: base.store }, objectName(id)!))?.toString()
}

/** Usage is the sum of rows, and the slot of one of three uploads in progress is free. */
async function isWhole({ id }: TestUser): Promise<boolean> {
  const platform = await started
  const off = await transaction(platform.db, trx => recountUsage(trx, id))
  await platform.db('blob_leases').update({ expires_at: '2000-01-01' })
  return off.objects === 0 && off.bytes === 0
}

/** A small segment is stored in its row, a longer one in the store. */
const small = (text: string) => text
const long = (text: string) => text.repeat(7000)
const points = [
  ['store.put:before', false, 'long'],
  ['store.put:after', false, 'long'],
  ['quota.charging:before', false, 'long'],
  ['quota.charging:after', true, 'long'],
  ['quota.charging:before', false, 'small'],
  ['quota.charging:after', true, 'small'],
] as const
let kept = 0

for (const [point, arrives, size] of points)
  test.serial(`an upload of a ${size} body that is cut at ${point} is ${arrives ? 'there' : 'nowhere'}`, async t => {
    const body = { small, long }[size]
    t.timeout(120_000)
    const { ana, api, dying, living } = await doomed(point)
    const headers = { 'idempotency-key': 'the first and the second try' }
    const path = '/v1/objects?name=a'
    await t.throwsAsync(dying.post(path, formOf({ bytes: body('first') }), headers))
    await diesAt(t, api, point)
    const id = `pub/${ana.id}/a.txt`
    t.is(await textOf(id), arrives ? body('first') : undefined)
    t.true(await isWhole(ana))
    const platform = await started
    // A first try that never ended is given up after five minutes.
    await platform.db('idempotency_keys').whereNull('status').update({ created_at: '2000-01-01' })
    const again = await living.post(path, formOf({ bytes: body('first') }), headers)
    t.is(again.status, 200, again.text)
    t.is(again.body.response.id, id)
    t.is(again.headers.get('idempotent-replayed'), arrives ? 'true' : null)
    kept++
  })

for (const [point, arrives, size] of points)
  test.serial(
    `an object that a ${size} body replaces when ${point} comes is the old one or the new one, whole`,
    async t => {
      const body = { small, long }[size]
      t.timeout(120_000)
      const { ana, api, dying, living } = await doomed(point)
      const path = '/v1/objects?name=a&overwrite=true'
      const { id } = (await living.post(path, formOf({ bytes: body('old') }))).body.response
      await t.throwsAsync(dying.post(path, formOf({ bytes: body('new one') })))
      await diesAt(t, api, point)
      t.is(await textOf(id), arrives ? body('new one') : body('old'))
      t.true(await isWhole(ana))
      t.like(await living.post(path, formOf({ bytes: body('last') })), {
        status: 200,
        body: { response: { replaced: true } },
      })
      t.is(await textOf(id), body('last'))
      kept++
    },
  )

for (const [point, arrives] of [
  ['db.transaction:before', false],
  ['db.transaction:after', true],
] as const)
  test.serial(`a move that is cut at ${point} has ${arrives ? '' : 'not '}happened, whole`, async t => {
    t.timeout(120_000)
    const { ana, api, dying, living } = await doomed(point)
    const { id } = (await living.post('/v1/objects?name=a', formOf({ bytes: 'moved' }))).body.response
    const body = JSON.stringify({ source: id, destination: { name: 'b', prefix: 'p' }, move: true })
    await t.throwsAsync(dying.post('/v1/objects/copy', body))
    await diesAt(t, api, point)
    const [source, target] = [await textOf(id), await textOf(`pub/${ana.id}/p/b.txt`)]
    t.deepEqual([source, target], arrives ? [undefined, 'moved'] : ['moved', undefined])
    t.true(await isWhole(ana))
    t.is((await living.post('/v1/objects/copy', body)).status, arrives ? 404 : 200)
    kept++
  })

test.serial('after all of that the sweep leaves the bodies of what is there, and no other', async t => {
  const platform = await started
  const parts = platform.db('object_parts as p').join('segments as s', 's.id', 'p.segment_id')
  t.is((await parts.clone()).length, kept)
  t.deepEqual((await platform.storedBodies()).sort(), await parts.whereNull('bytes').orderBy('id').pluck('id'))
  t.deepEqual(await platform.db('segments').where('refs', '<>', 1), [])
  t.is((await platform.db('segments')).length, kept)
})
