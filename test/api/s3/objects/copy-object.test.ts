import { CopyObjectCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import { transaction } from '../../../../db/database.ts'
import { saveRules } from '../../../../db/objects/blob-rules.ts'
import { readUsage } from '../../../../db/objects/blob-usage.ts'
import { lockNames } from '../../../../db/objects/objects.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { madeObject } from '../../../kit/objects/stored-objects.ts'
import { rule } from '../../../kit/objects/upkeep.ts'
import { s3Of } from '../../../kit/s3/sdk.ts'
import { elementOf, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const crc32 = 'NhCmhg==' // of hello
const own = {
  'content-type': 'text/css',
  'cache-control': 'max-age=7',
  'content-language': 'de',
  'x-amz-meta-a': 'source',
  'x-amz-tagging': 'of=source',
  'x-amz-checksum-crc32': crc32,
}

async function withSource(body = 'hello') {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const { headers } = await wire.send('PUT', '/private/from', { body, headers: body === 'hello' ? own : {} })
  const copy = (target: string, more: Record<string, string> = {}) =>
    wire.send('PUT', target, { headers: { 'x-amz-copy-source': '/private/from', ...more } })
  const shown = async (target: string) => {
    const got = await wire.send('GET', target, { headers: { 'x-amz-checksum-mode': 'ENABLED' } })
    return { ...got.headers, text: got.text, tags: (await wire.send('GET', `${target}?tagging`)).text }
  }
  return { ana, wire, copy, shown, etag: headers.etag! }
}

test('a copy has the content, the headers, the tags and the checksum of its source', async t => {
  const { ana, copy, shown, etag } = await withSource()
  const answer = await copy('/public/to')
  t.is(answer.status, 200, answer.text)
  t.is(elementOf(answer, 'ETag'), etag.replaceAll('"', '&quot;'))
  t.is(elementOf(answer, 'ChecksumCRC32'), crc32)
  t.regex(elementOf(answer, 'LastModified') ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const { 'x-amz-tagging': _, ...headers } = own
  const to = await shown('/public/to')
  t.like(to, { ...headers, text: 'hello', etag })
  t.true(to.tags.includes('<Key>of</Key><Value>source</Value>'))
  t.like(await readUsage(api().db, ana.id), { objects: 2, bytes: 10 })
})

test('directives decide whether headers and tags are those of the request', async t => {
  const { copy, shown } = await withSource()
  const replaced = { 'x-amz-meta-b': 'new', 'content-type': 'text/plain', 'x-amz-tagging': 'is=new' }
  await copy('/private/ignored', replaced)
  t.like(await shown('/private/ignored'), {
    'content-type': 'text/css',
    'x-amz-meta-a': 'source',
    'x-amz-meta-b': undefined,
  })
  await copy('/private/both', {
    ...replaced,
    'x-amz-metadata-directive': 'REPLACE',
    'x-amz-tagging-directive': 'REPLACE',
  })
  const both = await shown('/private/both')
  t.like(both, {
    'content-type': 'text/plain',
    'x-amz-meta-a': undefined,
    'x-amz-meta-b': 'new',
    'cache-control': 'no-store',
  })
  t.like(both, { 'content-language': undefined, 'x-amz-checksum-crc32': crc32, 'x-amz-tagging-count': '1' })
  t.true(both.tags.includes('<Key>is</Key>') && !both.tags.includes('<Key>of</Key>'))
  await copy('/private/tags', { 'x-amz-tagging-directive': 'REPLACE' })
  t.like(await shown('/private/tags'), { 'x-amz-meta-a': 'source', 'x-amz-tagging-count': undefined })
  await copy('/private/metadata', { 'x-amz-metadata-directive': 'REPLACE' })
  const metadata = await shown('/private/metadata')
  t.like(metadata, {
    'x-amz-meta-a': undefined,
    'content-type': 'application/octet-stream',
    'x-amz-tagging-count': '1',
  })
  t.is((await copy('/private/wrong', { 'x-amz-metadata-directive': 'KEEP' })).code, 'InvalidArgument')
})

test('an object is copied onto itself only to change it', async t => {
  const { ana, copy, shown } = await withSource()
  t.is((await copy('/private/from')).code, 'InvalidRequest')
  const answer = await copy('/private/from', { 'x-amz-metadata-directive': 'REPLACE', 'x-amz-meta-a': 'later' })
  t.is(answer.status, 200, answer.text)
  t.like(await shown('/private/from'), { text: 'hello', 'x-amz-meta-a': 'later', 'x-amz-checksum-crc32': crc32 })
  t.like(await readUsage(api().db, ana.id), { objects: 1, bytes: 5 })
  const held = await api()
    .db('objects as o')
    .join('object_parts as p', 'p.generation', 'o.generation')
    .join('segments as s', 's.id', 'p.segment_id')
    .where({ owner_id: ana.id })
    .pluck('refs')
  t.deepEqual(held, [1])
})

test('each failed condition on the source is PreconditionFailed', async t => {
  const { copy, etag, ana } = await withSource()
  const { created_at } = await api().db('objects').where({ owner_id: ana.id }).first()
  const dated = (ms: number) => new Date(created_at.getTime() + ms).toUTCString()
  for (const [conditions, status] of [
    [{ match: etag }, 200],
    [{ match: etag.replaceAll('"', '') }, 200],
    [{ match: '"x"' }, 412],
    [{ 'none-match': '"x"' }, 200],
    [{ 'none-match': etag }, 412],
    [{ 'modified-since': dated(-2000) }, 200],
    [{ 'modified-since': dated(0) }, 412],
    [{ 'unmodified-since': dated(0) }, 200],
    [{ 'unmodified-since': dated(-2000) }, 412],
    [{ match: etag, 'unmodified-since': dated(-2000) }, 200],
    [{ 'none-match': '"x"', 'modified-since': dated(0) }, 200],
    [{ match: etag, 'none-match': etag }, 412],
  ] as [Record<string, string>, number][]) {
    const headers = Object.entries(conditions).map(([name, value]) => [`x-amz-copy-source-if-${name}`, value])
    const answer = await copy('/private/to', Object.fromEntries(headers))
    t.is(answer.status, status, JSON.stringify(conditions))
    if (status === 412) t.is(answer.code, 'PreconditionFailed')
  }
})

test('conditions on the destination are evaluated too', async t => {
  const { copy, etag } = await withSource()
  t.is((await copy('/private/to', { 'if-match': '*' })).code, 'NoSuchKey')
  t.is((await copy('/private/to', { 'if-none-match': '*' })).status, 200)
  t.is((await copy('/private/to', { 'if-none-match': '*' })).code, 'PreconditionFailed')
  t.is((await copy('/private/to', { 'if-match': '"x"' })).code, 'PreconditionFailed')
  t.is((await copy('/private/to', { 'if-match': etag })).status, 200)
})

test('a legacy object can be copied, but nothing can be copied to legacy', async t => {
  const { ana, wire, copy } = await withSource()
  const old = await madeObject(api(), ana, { bucket: 'legacy', key: 'old file.bin', metadata: { a: 'é' } })
  const answer = await copy('/private/new', { 'x-amz-copy-source': 'legacy/old%20file.bin?versionId=null' })
  t.is(answer.status, 200, answer.text)
  t.true((await wire.send('GET', '/private/new')).bytes.equals(old.bytes))
  t.is((await copy('/legacy/new')).code, 'AccessDenied')
})

test('a missing source, and one with a malformed name, are refused', async t => {
  const { copy } = await withSource()
  const bob = await api().makeUser()
  await madeObject(api(), bob, { key: 'secret' })
  for (const [source, code] of [
    ['private/none', 'NoSuchKey'],
    ['/private/secret', 'NoSuchKey'],
    ['other/from', 'NoSuchBucket'],
    ['private', 'InvalidArgument'],
    ['private/', 'InvalidArgument'],
    ['/', 'InvalidArgument'],
    ['private/%zz', 'InvalidArgument'],
    ['private/%00', 'InvalidArgument'],
    ['private/%ff', 'InvalidArgument'],
    ['private/from?versionId=abc', 'NoSuchVersion'],
    [`private/${'x'.repeat(1025)}`, 'NoSuchKey'],
  ] as const)
    t.is((await copy('/private/to', { 'x-amz-copy-source': source })).code, code, source)
})

test('a copy expires by the rule of its destination', async t => {
  const { ana, copy, shown, wire } = await withSource()
  await saveRules(api().db, ana.id, [
    rule('soon/', { expire: '7d', cache_control: 'max-age=60' }),
    rule('small/', { max_size: 512 }),
  ])
  const answer = await copy('/private/soon/to')
  t.regex(String(answer.headers['x-amz-expiration']), /^expiry-date="[^"]+ GMT", rule-id="rule"$/)
  await copy('/private/back', { 'x-amz-copy-source': 'private/soon/to' })
  t.like(await shown('/private/back'), { 'x-amz-expiration': undefined })
  await wire.send('PUT', '/private/big', { body: 'x'.repeat(513) })
  t.is((await copy('/private/small/to', { 'x-amz-copy-source': 'private/big' })).code, 'EntityTooLarge')
  t.is((await copy('/private/to.exe')).code, 'AccessDenied')
})

test.serial('a source that is deleted during a copy leaves no object', async t => {
  const { ana, copy, shown } = await withSource()
  const { db } = api()
  const name = { ownerId: ana.id, bucket: 'private', key: 'to' } as const
  const waiting = async () =>
    (await db('pg_stat_activity').where({ wait_event: 'advisory' }).whereRaw('datname = current_database()')).length > 0
  const copying = await transaction(db, async trx => {
    await lockNames(trx, [name])
    const answer = copy('/private/to')
    await comesTrue(waiting)
    // A copy that waits for its destination may hold its source already, so the row is changed directly.
    await db('objects').where({ owner_id: ana.id, key: 'from' }).delete()
    return { answer }
  })
  t.is((await copying.answer).code, 'NoSuchKey')
  t.true((await shown('/private/to')).text.includes('NoSuchKey'))
})

test('the AWS SDK copies a key with unusual characters', async t => {
  const { ana, wire } = await withSource()
  const { client, send } = await s3Of(api(), ana)
  await wire.send('PUT', '/private/a%20b%2Bc/%C3%A9%25', { body: 'odd' })
  const CopySource = `private/${encodeURIComponent('a b+c/é%')}`
  await send(new CopyObjectCommand({ Bucket: 'private', Key: 'to +é', CopySource }))
  t.is((await wire.send('GET', '/private/to%20%2B%C3%A9')).text, 'odd')
  client.destroy()
})
