import test from 'ava'
import { blobSettings } from '../../../../policy/objects/blob-settings.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { answerOf, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi({ scale: 1, config: { blob: blobSettings({ BLOB_CONCURRENT_UPLOADS: '2' }) } })

test('every write is recorded once, and no read is', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/a', { body: 'x' })
  await wire.send('PUT', '/private/long', { body: 'x'.repeat(20_000) })
  await wire.send('PUT', '/public/copy', { headers: { 'x-amz-copy-source': 'private/a' } })
  await wire.send('PUT', '/private/a?tagging', { body: '<Tagging><TagSet/></Tagging>' })
  await wire.send('DELETE', '/private/a?tagging')
  await wire.send('DELETE', '/private/a')
  await wire.send('POST', '/private?delete', { body: '<Delete><Object><Key>long</Key></Object></Delete>' })
  for (const target of ['/', '/private', '/private/a', '/public/copy?tagging']) await wire.send('GET', target)
  const refused = await wire.send('PUT', '/private/refused', { body: 'x', headers: { 'if-match': '*' } })
  t.is(refused.status, 404)
  const entries = await api().db('audit').where({ actor: ana.id }).whereLike('action', 's3.%').orderBy('id')
  const [a, long] = [`prv/${ana.id}/a`, `prv/${ana.id}/long`]
  t.deepEqual(
    entries.map(({ action, resource, result, account_id }) => [action, resource, result, account_id]),
    [
      ['s3.PutObject', a, 'success', ana.id],
      ['s3.PutObject', long, 'success', ana.id],
      ['s3.CopyObject', `pub/${ana.id}/copy`, 'success', ana.id],
      ['s3.PutObjectTagging', a, 'success', ana.id],
      ['s3.DeleteObjectTagging', a, 'success', ana.id],
      ['s3.DeleteObject', a, 'success', ana.id],
      ['s3.DeleteObjects', null, 'success', ana.id],
    ],
  )
})

test('an account with all the objects of its plan adds none on either wire, but replaces, moves and deletes', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/a')
  await wire.send('PUT', '/private/b', { body: 'x' })
  // Of 5 GB.
  await api()
    .db('blob_usage')
    .insert({ owner_id: ana.id, objects: 501_000 - 2 })
    .onConflict('owner_id')
    .merge()
  await api().services.quota.close()
  t.is((await wire.send('PUT', '/private/empty')).code, 'QuotaExceeded')
  const copy = { headers: { 'x-amz-copy-source': 'private/a' } }
  t.is((await wire.send('PUT', '/private/copy', copy)).code, 'QuotaExceeded')
  const blob = api().blobAs(ana)
  const form = new FormData()
  const full = { code: 'STORAGE_QUOTA_EXCEEDED', message: /as many objects as its plan allows/ }
  const refused = async (file: Blob) => {
    form.set('file', file, 'new.txt')
    const { body } = await blob.request('POST', '/v1/objects?name=new', { body: form })
    t.is(body.code, full.code)
    t.regex(body.message, full.message)
  }
  await refused(new Blob(['text']))
  await refused(new Blob([Buffer.alloc(2 * 1024 * 1024)]))
  const copied = (move: boolean) =>
    JSON.stringify({ source: `prv/${ana.id}/b`, destination: { name: 'c', private: true }, move })
  t.like(await blob.post('/v1/objects/copy', copied(false)), { body: { code: 'STORAGE_QUOTA_EXCEEDED' } })
  const moved = await blob.post('/v1/objects/copy', copied(true))
  t.is(moved.status, 200)
  const path = `/private/${moved.body.response.id.split('/')[2]}`
  t.is((await wire.send('PUT', '/private/a')).status, 200, 'an empty one, replaced')
  t.is((await wire.send('PUT', path, { body: 'longer' })).status, 200)
  t.is((await wire.send('PUT', path, copy)).status, 200)
  t.is((await wire.send('DELETE', '/private/a')).status, 204)
  t.is((await wire.send('PUT', '/private/empty')).status, 200)
  t.is((await wire.send('PUT', '/private/more')).code, 'QuotaExceeded')
})

/** Extends the window of a limit, so that it does not end during a slow test. */
const hold = (userId: string) =>
  api().db('rate_limits').where('key', 'like', `%${userId}%`).update({ window_ends_at: '2100-01-01' })

test('requests beyond those of a plan are answered SlowDown, with Retry-After', async t => {
  const ana = await api().makeUser({ plan: 'hobby-1' })
  const wire = await wireOf(api(), ana)
  await wire.send('GET', '/private/none')
  await hold(ana.id)
  const answers = await Promise.all(Array.from({ length: 110 }, () => wire.send('GET', '/private/none')))
  const codes = answers.map(({ code }) => code)
  t.is(codes.filter(code => code === 'NoSuchKey').length, 99)
  t.is(codes.filter(code => code === 'SlowDown').length, 11)
  const slow = answers.find(({ code }) => code === 'SlowDown')!
  t.is(slow.status, 503)
  t.truthy(slow.headers['retry-after'])
  const put = await wire.send('PUT', '/private/k', { body: 'x' })
  t.deepEqual([put.status, put.code], [503, 'SlowDown'])
  t.is((await (await wireOf(api(), await api().makeUser())).send('GET', '/private/none')).code, 'NoSuchKey')
})

test('copies and deleted keys are counted in addition to requests', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/k', { body: 'x' })
  const copy = () => wire.send('PUT', '/private/to', { headers: { 'x-amz-copy-source': 'private/k' } })
  const keys = (count: number) => Array.from({ length: count }, (_, n) => `<Object><Key>${n}</Key></Object>`).join('')
  const remove = (count: number) => wire.send('POST', '/private?delete', { body: `<Delete>${keys(count)}</Delete>` })
  await copy()
  await remove(1)
  await hold(ana.id)
  const copies = await Promise.all(Array.from({ length: 21 }, copy))
  t.deepEqual(
    [copies.filter(({ status }) => status === 200).length, copies.filter(({ code }) => code === 'SlowDown').length],
    [19, 2],
  )
  for (const [count, status] of [
    [1000, 200],
    [999, 200],
    [1, 503],
  ] as const)
    t.is((await remove(count)).status, status)
  t.is((await wire.send('DELETE', '/private/k')).code, 'SlowDown')
})

test('parts that are copied count as requests only, because programs copy a large object in hundreds of them', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/k', { body: 'x' })
  const { text } = await wire.send('POST', '/private/to?uploads')
  const [, id] = /<UploadId>(\w+)</.exec(text)!
  for (let part = 1; part <= 25; part++) {
    const target = `/private/to?partNumber=${part}&uploadId=${id}`
    t.is((await wire.send('PUT', target, { headers: { 'x-amz-copy-source': 'private/k' } })).status, 200, `${part}`)
  }
})

test('uploads beyond the concurrent ones of an account are answered SlowDown', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const slowly = async (key: string) => {
    const headers = { expect: '100-continue' }
    const sending = wire.open('PUT', `/private/${key}`, { body: 'x'.repeat(100_000), headers })
    const answer = answerOf(sending)
    await new Promise(resolve => sending.once('continue', resolve))
    return { end: () => sending.end('x'.repeat(100_000)), answer }
  }
  const first = [await slowly('a'), await slowly('b')]
  const third = await wire.send('PUT', '/private/c', { body: 'x'.repeat(100_000) })
  t.deepEqual([third.status, third.code], [503, 'SlowDown'])
  for (const { end } of first) end()
  t.deepEqual(await Promise.all(first.map(async ({ answer }) => (await answer).status)), [200, 200])
  t.is((await wire.send('PUT', '/private/c', { body: 'x'.repeat(100_000) })).status, 200)
})
