import test from 'ava'
import { transaction } from '../../db/database.ts'
import { recountUsage } from '../../db/objects/blob-usage.ts'
import { diesAt } from '../kit/crash/crash-kit.ts'
import { etagIn, s3At, s3Commands } from '../kit/crash/s3-commands.ts'
import { sweep } from '../kit/objects/sweep.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const started = testPlatform({ worker: false, hosts: {} })

/** A user at two gateways: one that survives, and one whose process is killed at `point`. */
async function atRisk(point: string) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const { api, s3Url } = await platform.startApiProcess({ CRASH_POINT: point })
  const blob = platform.api.blobAs(ana)
  const [living, doomed] = [await s3At(blob, platform.api.s3Url), await s3At(blob, s3Url)]
  return { platform, ana, api, living, doomed }
}

/** Points before and after the commit of a command. */
const statement = [
  ['quota.charging:before', false],
  ['quota.charging:after', true],
] as const
const commit = [
  ['db.transaction:before', false],
  ['db.transaction:after', true],
] as const
const body = [
  ['store.put:before', false],
  ['store.put:after', false],
] as const

const cases: Record<string, readonly (readonly [point: string, happens: boolean])[]> = {
  'PutObject small': statement,
  'PutObject large': [...body, ...statement],
  'PutObject replacing': commit,
  'PostObject small': statement,
  'PostObject large': [...body, ...statement],
  CopyObject: commit,
  DeleteObjects: commit,
  UploadPart: [...body, ...commit],
  'UploadPartCopy whole': commit,
  'UploadPartCopy range': [...body, ...commit],
  CompleteMultipartUpload: commit,
}

for (const [name, points] of Object.entries(cases))
  for (const [point, happens] of points)
    test.serial(
      `${name}: killed at ${point}, it is ${happens ? 'done completely' : 'not done at all'}, and can be repeated`,
      async t => {
        t.timeout(120_000)
        const { platform, ana, api, living, doomed } = await atRisk(point)
        const { send, seen, done, etag } = await s3Commands[name]!(living)
        const before = await seen(living)
        t.notDeepEqual(before, done)
        await t.throwsAsync(send(doomed))
        await diesAt(t, api, point)
        t.deepEqual(await seen(living), happens ? done : before)
        // The slot of the killed request is free once its lease has expired.
        await platform.db('blob_leases').update({ expires_at: '2000-01-01' })
        const again = await send(living)
        t.true(again.status < 300, again.text)
        t.is(etagIn(again), etag)
        t.deepEqual(await seen(living), done)
        t.deepEqual(await transaction(platform.db, trx => recountUsage(trx, ana.id)), { objects: 0, bytes: 0 })
      },
    )

for (const point of ['store.delete:before', 'store.delete:after'])
  test.serial(
    `a process is killed while it discards a body with a wrong checksum, and the next sweep does it: ${point}`,
    async t => {
      t.timeout(120_000)
      const { platform, api, living, doomed } = await atRisk(point)
      const { db, base } = platform
      const headers = { 'content-md5': Buffer.alloc(16).toString('base64') }
      await t.throwsAsync(doomed.wire.send('PUT', '/private/wrong', { body: 'x'.repeat(40_000), headers }))
      await diesAt(t, api, point)
      t.is((await living.wire.send('GET', '/private/wrong')).code, 'NoSuchKey')
      const [segment, ...others] = await db('segments').where({ state: 'dying' }).pluck('id')
      t.deepEqual(others, [])
      t.is((await base.store.head(segment)) !== null, point === 'store.delete:before')
      t.is(await sweep({ db, store: base.store }), 1)
      t.is(await base.store.head(segment), null)
    },
  )

test.serial('afterwards a sweep leaves the bodies that rows refer to, and no other', async t => {
  const { db, storedBodies } = await started.then(platform => ({
    db: platform.db,
    storedBodies: () => platform.storedBodies(),
  }))
  const bodies = await storedBodies()
  const { rows } = await db.raw(
    `select s.id, s.refs::integer, s.bytes is null as outside, (select count(*) from object_parts where segment_id = s.id)::integer
       + (select count(*) from upload_parts where segment_id = s.id)::integer as held
       from segments s order by s.id`,
  )
  for (const { id, refs, held } of rows) t.true(refs === held && held > 0, `${id}: ${refs} references, ${held} holders`)
  const outside = rows.filter((row: { outside: boolean }) => row.outside).map(({ id }: { id: string }) => id)
  t.deepEqual(bodies.sort(), outside)
})
