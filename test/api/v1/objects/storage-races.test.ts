import test from 'ava'
import { type Db, transaction } from '../../../../db/database.ts'
import { storeObject } from '../../../../db/objects/objects.ts'
import { storeUploadPart } from '../../../../db/objects/uploads/upload-parts.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { type Answer, testApi } from '../../../kit/actors/api.ts'
import { chunkedAs } from '../../../kit/actors/chunked.ts'
import { sent } from '../../../kit/actors/sent-files.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { drawnPart } from '../../../kit/objects/objects.ts'

const api = testApi()
const larger = 'x'.repeat(100)

/** The answer to a request that read a size, and waited for its lock while `change` was not committed yet. */
async function during(change: (trx: Db) => Promise<unknown>, request: () => Promise<Answer>): Promise<Answer> {
  const { db } = api()
  const waiting = db('pg_stat_activity').where({ wait_event_type: 'Lock', datname: db.raw('current_database()') })
  const { answer } = await transaction(db, async trx => {
    await change(trx)
    const answer = request()
    await comesTrue(async () => (await waiting.clone()).length > 0)
    return { answer }
  })
  return answer
}

test.serial('a copy of an object that a larger one replaces meanwhile is a copy of the larger one', async t => {
  const ana = await api().makeUser()
  const { id } = await sent(api(), ana, { name: 'a' })
  const part = await drawnPart(api().db, larger)
  const object = { ...objectName(id)!, contentType: 'text/plain', etag: part.md5! }
  const answer = await during(
    trx => storeObject(trx, object, [part], { overwrite: true }),
    () =>
      api()
        .blobAs(ana)
        .post('/v1/objects/copy', JSON.stringify({ source: id, destination: { name: 'b' } })),
  )
  t.like(answer, { status: 200, body: { response: { size: 100 } } }, answer.text)
})

test.serial('an upload with a part that a larger one replaces during its completion has the larger one', async t => {
  const ana = await api().makeUser()
  const chunked = chunkedAs(api().blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  await chunked.part(upload, 1, 'bytes')
  const { id } = await api().db('uploads').where({ owner_id: ana.id }).first('id')
  const { segmentId, md5, body } = await drawnPart(api().db, larger)
  const answer = await during(
    trx => storeUploadPart(trx, { uploadId: id, part: 1, segmentId, body: { ...body, md5: md5! } }),
    () => chunked.complete(upload),
  )
  t.like(answer, { status: 200, body: { response: { size: 100, parts: 1 } } }, answer.text)
})
