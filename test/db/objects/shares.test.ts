import { randomBytes } from 'node:crypto'
import test from 'ava'
import { putObject } from '../../../db/objects/object-puts.ts'
import { allocateSegment } from '../../../db/objects/segments.ts'
import { createShare, findShare, spendDownload, sweepShares } from '../../../db/objects/shares.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

async function shared(maxDownloads: number | null) {
  const { db } = await database
  const { id: ownerId } = await rows(db).user()
  const key = randomBytes(6).toString('hex')
  const body = { size: 1, sha256: 'a'.repeat(64) }
  const part = { segmentId: await allocateSegment(db), length: 1, body }
  const { object } = await putObject(
    db,
    { ownerId, bucket: 'private', key, contentType: 'text/plain', etag: 'e' },
    part,
  )
  const share = { object, expiresInSeconds: 3600, maxDownloads, passwordHash: null }
  return db.transaction(trx => createShare(trx, share))
}

test('a hundred concurrent downloads spend exactly the allowed number', async t => {
  const { db } = await database
  const { id } = await shared(7)
  const spent = await Promise.all(Array.from({ length: 100 }, () => spendDownload(db, id)))
  t.is(spent.filter(Boolean).length, 7)
  t.is((await findShare(db, id))?.remaining, 0)
})

test('an expired or revoked share is not found and spends nothing; a day later it is deleted', async t => {
  const { db } = await database
  const days = (count: number) => new Date(Date.now() - count * 86_400_000)
  const [fresh, over, longOver, revoked, longRevoked] = await Promise.all(Array.from({ length: 5 }, () => shared(5)))
  await db('shares')
    .where({ id: over!.id })
    .update({ expires_at: days(0.5) })
  await db('shares')
    .where({ id: longOver!.id })
    .update({ expires_at: days(1.5) })
  await db('shares')
    .where({ id: revoked!.id })
    .update({ revoked_at: days(0.5) })
  await db('shares')
    .where({ id: longRevoked!.id })
    .update({ revoked_at: days(1.5) })
  for (const { id } of [over!, longOver!, revoked!, longRevoked!])
    t.deepEqual([await findShare(db, id), await spendDownload(db, id)], [undefined, false])
  await sweepShares(db)
  const ids = [fresh, over, longOver, revoked, longRevoked].map(share => share!.id)
  const left = await db('shares').whereIn('id', ids).pluck('id')
  t.deepEqual(left.sort(), [fresh!.id, over!.id, revoked!.id].sort())
})
