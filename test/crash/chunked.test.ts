import test from 'ava'
import { transaction } from '../../db/database.ts'
import { recountUsage } from '../../db/objects/blob-usage.ts'
import { actors, type TestUser } from '../kit/actors/api.ts'
import { chunkedAs, fullPart } from '../kit/actors/chunked.ts'
import { diesAt } from '../kit/crash/crash-kit.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const started = testPlatform({ worker: false, hosts: {} })

/** An account with an open upload that has one part, and the same upload at a process that will die at a point. */
async function atRisk(point: string) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const chunked = chunkedAs(platform.api.blobAs(ana))
  const { upload, id } = (await chunked.init()).body.response
  const first = fullPart()
  await chunked.part(upload, 1, first)
  const { api, blobUrl } = await platform.startApiProcess({ CRASH_POINT: point })
  return { platform, ana, chunked, upload, id, first, api, doomed: chunkedAs(actors(blobUrl).as(ana)) }
}

const objectsOf = async ({ id }: TestUser) => (await started).db('objects').where({ owner_id: id })

for (const [point, arrives] of [
  ['store.put:before', false],
  ['store.put:after', false],
  ['db.transaction:before', false],
  ['db.transaction:after', true],
] as const)
  test.serial(`a part that is cut at ${point} is ${arrives ? 'there' : 'nowhere'}, and can be sent again`, async t => {
    t.timeout(120_000)
    const { platform, ana, chunked, upload, api, doomed, first } = await atRisk(point)
    await t.throwsAsync(doomed.part(upload, 2, 'the end'))
    await diesAt(t, api, point)
    const { parts } = (await chunked.status(upload)).body.response
    t.deepEqual(
      parts.map((part: { part: number }) => part.part),
      arrives ? [1, 2] : [1],
    )
    await platform.db('blob_leases').update({ expires_at: '2000-01-01' })
    t.is((await chunked.part(upload, 2, 'the end')).status, 200)
    t.like((await chunked.complete(upload)).body.response, { parts: 2, size: first.length + 7 })
    t.is((await objectsOf(ana)).length, 1)
    t.deepEqual(await transaction(platform.db, trx => recountUsage(trx, ana.id)), { objects: 0, bytes: 0 })
  })

for (const [point, completes] of [
  ['db.transaction:before', false],
  ['db.transaction:after', true],
] as const)
  test.serial(`a completion that is cut at ${point} has ${completes ? '' : 'not '}happened, whole`, async t => {
    t.timeout(120_000)
    const { platform, ana, chunked, upload, id, api, doomed, first } = await atRisk(point)
    await t.throwsAsync(doomed.complete(upload))
    await diesAt(t, api, point)
    t.is((await objectsOf(ana)).length, completes ? 1 : 0)
    if (completes) t.like(await chunked.complete(upload), { status: 404, body: { code: 'UPLOAD_NOT_FOUND' } })
    else t.like((await chunked.complete(upload)).body.response, { id, size: first.length })
    t.is((await objectsOf(ana)).length, 1)
    t.deepEqual(await transaction(platform.db, trx => recountUsage(trx, ana.id)), { objects: 0, bytes: 0 })
  })

test.serial('after all of that the sweep leaves the bodies of what is there, and no other', async t => {
  const platform = await started
  const held = await platform.db('object_parts').orderBy('segment_id').pluck('segment_id')
  t.is(held.length, 4 * 2 + 2)
  t.deepEqual((await platform.storedBodies()).sort(), held)
  t.deepEqual(await platform.db('segments').where('refs', '<>', 1), [])
})
