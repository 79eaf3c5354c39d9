import { crc32 } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import type pg from 'pg'
import { openDatabase } from '../../../../db/database.ts'
import { storeObject } from '../../../../db/objects/objects.ts'
import { newId } from '../../../../policy/ids.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { here, madeObject } from '../../../kit/objects/stored-objects.ts'
import { statementsOf } from '../../../kit/rows/plans-of.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

/** A transaction in which nobody else reads a manifest; it ends with the test. */
async function lockManifests(t: ExecutionContext) {
  const other = openDatabase({ url: api().db.client.config.connection.connectionString, pool: 1 })
  const trx = await other.transaction()
  t.teardown(async () => {
    if (!trx.isCompleted()) await trx.rollback()
    await other.destroy()
  })
  await trx.raw('lock table object_parts in access exclusive mode')
  return trx
}

test.serial('answers without bytes of an object do not read its manifest', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const etag = (await wire.send('PUT', '/public/a.txt', { body: 'hello' })).headers.etag!
  const { id } = await madeObject(api(), ana, { key: 'b.txt', bytes: Buffer.from('hello') })
  const blob = api().blobAs(ana)
  const link = here(api(), (await blob.get(`/v1/objects/download?object=${id}&redirect=false`)).body.response.url)
  const made = await blob.post('/v1/shares', JSON.stringify({ object: id, password: 'correct horse' }))
  const share = here(api(), made.body.response.url)
  const trx = await lockManifests(t)
  const known = { 'if-none-match': etag }
  const changed = { 'if-match': '"x"' }
  const beyond = { range: 'bytes=5-' }
  const path = '/public/a.txt'
  t.is((await wire.send('HEAD', path)).headers['content-length'], '5')
  t.is((await wire.send('GET', path, { headers: known })).status, 304)
  t.is((await wire.send('GET', path, { headers: changed })).code, 'PreconditionFailed')
  t.is((await wire.send('GET', path, { headers: beyond })).code, 'InvalidRange')
  const size = { 'x-amz-object-attributes': 'ObjectSize' }
  t.is((await wire.send('GET', `${path}?attributes`, { headers: size })).status, 200)
  for (const url of [`${api().publicUrl}/pub/${ana.id}/a.txt`, link]) {
    t.is((await fetch(url, { method: 'HEAD' })).headers.get('content-length'), '5')
    t.is((await fetch(url, { headers: known })).status, 304)
    t.is((await fetch(url, { headers: beyond })).status, 416)
  }
  t.is((await fetch(share)).status, 200, 'the page that asks for the password')
  t.is((await fetch(share, { method: 'POST', body: new URLSearchParams({ password: 'wrong' }) })).status, 403)
  await trx.rollback()
  const whole = await wire.send('GET', path, { headers: { 'if-match': etag, range: 'bytes=1-2' } })
  t.deepEqual([whole.status, whole.text], [206, 'el'])
  t.is((await wire.send('HEAD', `${path}?partNumber=1`)).status, 206)
})

/** How many parts the database returns to the requests of `work`. */
async function partsReadBy(work: () => Promise<unknown>): Promise<number> {
  const sent = (await statementsOf(work)).filter(({ text }) => /select.*from object_parts/s.test(text))
  const { client } = api().db
  const connection: pg.Client = await client.acquireConnection()
  client.releaseConnection(connection)
  const answers = await Promise.all(sent.map(({ text, values }) => connection.query({ text, values })))
  return answers.flatMap(({ rows }) => rows).reduce((sum, { parts }) => sum + (parts?.length ?? 0), 0)
}

test.serial('a range, a part and a page of parts read only the parts that they need', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const pieces = Array.from({ length: 100 }, (_, n) => Buffer.from(`piece ${String(n).padStart(3, '0')}.`))
  const { id } = await madeObject(api(), ana, { key: 'many', pieces, etag: `${'a'.repeat(32)}-100` })
  const link = here(
    api(),
    (await api().blobAs(ana).get(`/v1/objects/download?object=${id}&redirect=false`)).body.response.url,
  )
  const path = '/private/many'
  const reads = async (parts: number, what: string, work: () => Promise<unknown>) =>
    t.is(await partsReadBy(work), parts, what)
  const range = { range: 'bytes=495-504' }
  await reads(2, 'a range of S3', async () => {
    t.is((await wire.send('GET', path, { headers: range })).text, ' 049.piece')
  })
  await reads(2, 'a range of a link', async () => {
    t.is(await (await fetch(link, { headers: range })).text(), ' 049.piece')
  })
  await reads(1, 'the end', async () => {
    t.is((await wire.send('GET', path, { headers: { range: 'bytes=-3' } })).text, '99.')
  })
  await reads(1, 'a part', async () => {
    const part = await wire.send('GET', `${path}?partNumber=50`)
    t.like(part, { status: 206, text: 'piece 049.' })
    t.is(part.headers['x-amz-mp-parts-count'], '100')
  })
  await reads(3, 'a page of parts', async () => {
    const headers = {
      'x-amz-object-attributes': 'ObjectParts',
      'x-amz-max-parts': '3',
      'x-amz-part-number-marker': '9',
    }
    const { text } = await wire.send('GET', `${path}?attributes`, { headers })
    t.regex(text, /<PartsCount>100<.*<NextPartNumberMarker>12<.*<IsTruncated>true</s)
  })
  await reads(2, 'a part that is copied', async () => {
    const [, upload] = /<UploadId>(.*?)</.exec((await wire.send('POST', '/private/copy?uploads')).text)!
    const headers = { 'x-amz-copy-source': 'private/many', 'x-amz-copy-source-range': 'bytes=495-504' }
    t.is((await wire.send('PUT', `/private/copy?partNumber=1&uploadId=${upload}`, { headers })).status, 200)
  })
  await reads(100, 'the whole', async () => {
    t.is((await wire.send('GET', path)).text.length, 1000)
  })
})

test.serial('an object that is replaced while a range of it is opened is answered as the new one', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const [texts, status, answer] of [
    [['0123456789', 'xyz'], 206, 'yz'],
    [['012'], 206, '12'],
    [[''], 416, undefined],
  ] as const) {
    const name = { ownerId: ana.id, bucket: 'private', key: `of-${texts.length}-${texts[0].length}` } as const
    await wire.send('PUT', `/private/${name.key}`, { body: 'abcdefghij' })
    const trx = await lockManifests(t)
    const reading = wire.send('GET', `/private/${name.key}`, { headers: { range: 'bytes=-2' } })
    await comesTrue(async () => {
      const { rows } = await trx.raw(
        `select from pg_locks where not granted and relation = 'object_parts'::regclass
          and database = (select oid from pg_database where datname = current_database())`,
      )
      return rows.length > 0
    })
    const parts = texts.map(text => {
      const bytes = Buffer.from(text)
      const body = { size: bytes.length, sha256: 'a', md5: 'b', crc32: crc32(bytes) }
      return { segmentId: newId(), length: bytes.length, body, bytes }
    })
    await storeObject(trx, { ...name, contentType: 'text/plain', etag: `e${texts}` }, parts, { overwrite: true })
    await trx.commit()
    const read = await reading
    t.is(read.status, status)
    if (answer) t.is(read.text, answer)
  }
})
