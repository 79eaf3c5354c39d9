import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { revokeKey, setBlocked } from '../../../../db/accounts/accounts.ts'
import { transaction } from '../../../../db/database.ts'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { removeObject } from '../../../../db/objects/object-removal.ts'
import { blobSettings } from '../../../../policy/objects/blob-settings.ts'
import { objectName } from '../../../../policy/objects/object-names.ts'
import { openApiFor, type TestApi, type TestUser, testApi } from '../../../kit/actors/api.ts'
import { chunkedAs } from '../../../kit/actors/chunked.ts'
import { sendFile, sent } from '../../../kit/actors/sent-files.ts'
import { comesTrue } from '../../../kit/comes-true.ts'

const config = { blob: blobSettings({ BLOB_CONCURRENT_UPLOADS: '2', BLOB_MIN_SIZE: '3' }) }
const api = testApi({ config })
const gib = 1024 ** 3
const boundary = 'the-boundary'
const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="slow.txt"\r\n\r\nhello`
const end = `\r\n--${boundary}--\r\n`

/** An upload that stops in the middle of its file, until its end is requested. */
function slowly({ blobUrl }: TestApi, { key }: TestUser) {
  const headers = { authorization: key, 'content-type': `multipart/form-data; boundary=${boundary}` }
  const sending = request(`${blobUrl}/v1/objects`, { method: 'POST', headers })
  sending.on('error', () => {})
  const status = new Promise<number>((resolve, reject) => {
    sending.once('response', answer => resolve(answer.resume().statusCode ?? 0)).once('error', reject)
  })
  sending.write(head)
  return { status, end: () => sending.end(end), cut: () => sending.destroy() }
}

const underWay = async (user: TestUser): Promise<number> => {
  const { rows } = await api().db.raw(
    `select count(*)::integer as n from blob_leases where subject = ? and expires_at > now()`,
    [`upload/${user.id}`],
  )
  return rows[0].n
}

const waitsForAName = async (): Promise<boolean> => {
  const waits = `select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`
  return (await api().db.raw(waits)).rows.length > 0
}

test('concurrent uploads of an account are limited over two processes; one that ends or breaks off frees a slot', async t => {
  t.timeout(120_000)
  const ana = await api().makeUser()
  const { db } = api()
  const undo: (() => Promise<unknown>)[] = []
  const other = await openApiFor({ db, url: db.client.config.connection.connectionString }, { config }, undo)
  const first = slowly(api(), ana)
  await comesTrue(async () => (await underWay(ana)) === 1)
  const next = slowly(other, ana)
  await comesTrue(async () => (await underWay(ana)) === 2)
  for (const process of [api(), other]) {
    const full = await sendFile(process, ana)
    t.like(full, { status: 429, body: { code: 'TOO_MANY_CONCURRENT_UPLOADS' } })
    t.truthy(full.headers.get('retry-after'))
  }
  t.is((await sendFile(api(), await api().makeUser())).status, 200, 'others are not counted')
  first.end()
  t.is(await first.status, 200)
  t.is((await sendFile(other, ana)).status, 200)
  next.cut()
  await t.throwsAsync(next.status)
  await comesTrue(async () => (await underWay(ana)) === 0)
  for (const step of undo.reverse()) await step()
})

test('a caller who is blocked or revoked during the body is refused at its end, and nothing is stored', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const uploads = [slowly(api(), ana), slowly(api(), bob)]
  await comesTrue(async () => (await underWay(ana)) + (await underWay(bob)) === 2)
  await setBlocked(api().db, ana.id, true)
  await revokeKey(api().db, bob.keyId)
  await sleep(1100) // so long a credential may be believed
  for (const { end } of uploads) end()
  t.deepEqual(await Promise.all(uploads.map(({ status }) => status)), [403, 401])
  t.deepEqual(await api().db('objects').whereIn('owner_id', [ana.id, bob.id]), [])
  t.is((await underWay(ana)) + (await underWay(bob)), 0)
})

test('a process that dies holds its slots for a minute only', async t => {
  const ana = await api().makeUser()
  const lease = { subject: `upload/${ana.id}`, holder: 'ended' }
  await api()
    .db('blob_leases')
    .insert([1, 2].map(place => ({ ...lease, place, expires_at: new Date(Date.now() + 60_000) })))
  t.is((await sendFile(api(), ana)).status, 429)
  await api().db('blob_leases').where(lease).update({ expires_at: new Date() })
  t.is((await sendFile(api(), ana)).status, 200)
})

test('a file must have the operator’s minimum size', async t => {
  const ana = await api().makeUser()
  const small = await sendFile(api(), ana, {}, { bytes: 'ab' })
  t.like(small, { status: 400, body: { code: 'FILE_TOO_SMALL' } })
  t.is((await sendFile(api(), ana, {}, { bytes: 'abc' })).status, 200)
  const chunked = chunkedAs(api().blobAs(ana))
  const { upload } = (await chunked.init()).body.response
  await chunked.part(upload, 1, 'ab')
  t.like(await chunked.complete(upload), { status: 400, body: { code: 'FILE_TOO_SMALL' } })
})

/** An account of 5 GB with so many bytes left. */
async function nearlyFull(left: number): Promise<TestUser> {
  const user = await api().makeUser({ plan: 'hobby-1' })
  await api()
    .db('blob_usage')
    .insert({ owner_id: user.id, objects: 1, bytes: 5 * gib - left })
  return user
}

test('a replacing upload has room even if the replaced object is deleted meanwhile', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const { db } = api()
  const fields = { name: 'a', overwrite: 'true' }
  const { id } = await sent(api(), ana, fields, { bytes: 'x'.repeat(500) })
  const sending = await transaction(db, async trx => {
    await removeObject(trx, objectName(id)!)
    const answer = sendFile(api(), ana, fields, { bytes: 'y'.repeat(600) })
    await comesTrue(waitsForAName)
    return { answer }
  })
  t.like(await sending.answer, { status: 200, body: { response: { replaced: false } } })
  t.is((await readUsage(db, ana.id)).bytes, 600)
})

test('the storage of the plan can be filled to the last byte and no further', async t => {
  const ana = await nearlyFull(10)
  const over = await sendFile(api(), ana, { name: 'a' }, { bytes: 'x'.repeat(11) })
  t.like(over, { status: 403, body: { code: 'STORAGE_QUOTA_EXCEEDED' } })
  t.is((await sent(api(), ana, { name: 'a' }, { bytes: 'x'.repeat(10) })).size, 10)
  t.is((await readUsage(api().db, ana.id)).bytes, 5 * gib)
  t.like(await sendFile(api(), ana, {}, { bytes: 'xyz' }), { status: 403, body: { code: 'STORAGE_QUOTA_EXCEEDED' } })
  const same = { name: 'a', overwrite: 'true' }
  t.like(await sent(api(), ana, same, { bytes: 'y'.repeat(10) }), { replaced: true })
  t.like(await sendFile(api(), ana, same, { bytes: 'y'.repeat(11) }), { status: 403 })
  t.like(await sent(api(), ana, same, { bytes: 'yyy' }), { replaced: true })
  t.is((await readUsage(api().db, ana.id)).bytes, 5 * gib - 7)
})

test('of concurrent uploads only those that fit are stored', async t => {
  const ana = await nearlyFull(25)
  const answers = await Promise.all([1, 2].map(() => sendFile(api(), ana, {}, { bytes: 'x'.repeat(13) })))
  t.deepEqual(answers.map(({ status }) => status).sort(), [200, 403])
  t.is((await readUsage(api().db, ana.id)).bytes, 5 * gib - 12)
})

test('a body that cannot fit is refused before it is sent, also where parts of open uploads take the room', async t => {
  const ana = await nearlyFull(10)
  t.is(JSON.parse(await saidBeforeBody(ana)).code, 'STORAGE_QUOTA_EXCEEDED')
  const bob = await nearlyFull(60_000_000)
  t.is(await saidBeforeBody(bob), 'continue')
  const { upload } = (await chunkedAs(api().blobAs(bob)).init({ name: 'parts' })).body.response
  t.is((await chunkedAs(api().blobAs(bob)).part(upload, 1, Buffer.alloc(12_000_000))).status, 200)
  t.is(JSON.parse(await saidBeforeBody(bob)).code, 'STORAGE_QUOTA_EXCEEDED')
})

/** What is answered to the headers of an upload of 50 MB: a text of JSON, or `continue`. */
async function saidBeforeBody(user: TestUser): Promise<string> {
  const headers = {
    authorization: user.key,
    'content-type': `multipart/form-data; boundary=${boundary}`,
    'content-length': 50_000_000,
    expect: '100-continue',
  }
  const asking = request(`${api().blobUrl}/v1/objects`, { method: 'POST', headers })
  const said = await new Promise<string>((resolve, reject) => {
    asking.once('continue', () => resolve('continue')).once('error', reject)
    asking.once('response', answer => {
      answer.setEncoding('utf8').once('data', resolve)
    })
    asking.flushHeaders()
  })
  asking.destroy()
  return said
}
