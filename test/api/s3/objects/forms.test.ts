import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import test from 'ava'
import { MiB } from '../../../../lib/bytes.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { type S3Account, s3Account } from '../../../kit/s3/account.ts'
import {
  boundary,
  type FormOptions,
  formBody,
  formEnd,
  formPart,
  postForm,
  signedFields,
} from '../../../kit/s3/forms.ts'
import { storedFor } from '../../../kit/s3/remains.ts'

const api = testApi()

const namelessPart = Buffer.from(`--${boundary}\r\nContent-Disposition: form-data\r\n\r\nx\r\n`)
const Bucket = 'private'
// biome-ignore lint/suspicious/noTemplateCurlyInString: so it is in forms
const fileName = '${filename}'

const post = (ana: S3Account, options: FormOptions = {}, file?: string | Buffer, fileName?: string) =>
  postForm(api(), formBody(signedFields(ana, options), file, fileName))

const objectOf = async ({ send }: S3Account, Key: string) => {
  const got = await send(new GetObjectCommand({ Bucket, Key, ChecksumMode: 'ENABLED' }))
  return { ...got, text: await got.Body!.transformToString() }
}

test('a form stores its file with the headers in its fields, and is answered 204', async t => {
  const ana = await s3Account(api())
  const fields = {
    key: 'a/b.txt',
    'Content-Type': 'text/x-own',
    'Cache-Control': 'max-age=7',
    'Content-Disposition': 'inline',
    'x-amz-meta-note': 'größer',
  }
  const answer = await post(ana, { fields })
  t.is(answer.status, 204, answer.text)
  t.is(answer.headers.get('etag'), `"${createHash('md5').update('content').digest('hex')}"`)
  const object = await objectOf(ana, 'a/b.txt')
  t.like(object, {
    text: 'content',
    ContentType: 'text/x-own',
    CacheControl: 'max-age=7',
    ContentDisposition: 'inline',
  })
  t.truthy(object.Metadata?.note)
  const [{ metadata }] = await api().db('objects').where({ owner_id: ana.user.id })
  t.deepEqual(metadata, { note: 'größer' })
  const audit = await api().db('audit').where({ account_id: ana.user.id, action: 's3.PostObject' })
  t.is(audit.length, 1)
})

test('a form that the AWS SDK has signed is accepted', async t => {
  const ana = await s3Account(api())
  const conditions = [{ acl: 'private' }, ['content-length-range', 1, 100] as ['content-length-range', number, number]]
  const { url, fields } = await createPresignedPost(ana.client, {
    Bucket,
    Key: `theirs/${fileName}`,
    Conditions: conditions,
    Fields: { acl: 'private' },
  })
  t.is(url, `${api().s3Url}/private`)
  t.is((await postForm(api(), formBody(fields))).status, 204)
  t.is((await objectOf(ana, 'theirs/own name.txt')).text, 'content')
})

test('the variable filename is replaced by the name of the file, with any characters', async t => {
  const ana = await s3Account(api())
  for (const [sentName, base] of [
    ['plain.txt', 'plain.txt'],
    ['a$$b$&c.txt', 'a$$b$&c.txt'],
    ['C:\\folder\\ä b.txt', 'ä b.txt'],
    ['/etc/passwd', 'passwd'],
  ] as const) {
    const answer = await post(
      ana,
      { fields: { key: `names/${fileName}`, 'x-amz-meta-of': fileName } },
      'x',
      sentName.replaceAll('\\', '\\\\'),
    )
    t.is(answer.status, 204, answer.text)
    t.is((await objectOf(ana, `names/${base}`)).text, 'x')
  }
})

test('fields of the form select its response', async t => {
  const ana = await s3Account(api())
  const etag = `"${createHash('md5').update('content').digest('hex')}"`
  const statuses = { 200: 200, 201: 201, 204: 204, 302: 204, nonsense: 204 }
  for (const [success_action_status, status] of Object.entries(statuses)) {
    const answer = await post(ana, { fields: { success_action_status } })
    t.is(answer.status, status, success_action_status)
    t.is(answer.text !== '', status === 201)
  }
  const created = await post(ana, { fields: { success_action_status: '201', key: 'ü&.txt' } })
  t.regex(created.text, /<PostResponse.*<Bucket>private<\/Bucket><Key>ü&amp;\.txt<\/Key><ETag>&quot;/)
  const fields = { success_action_redirect: 'https://shop.example/done?a=1', success_action_status: '201' }
  const led = await post(ana, { fields })
  t.is(led.status, 303)
  const target = new URL(led.headers.get('location')!)
  t.deepEqual(Object.fromEntries(target.searchParams), { a: '1', bucket: 'private', key: 'form.txt', etag })
  for (const redirect of ['javascript:alert(1)', 'nonsense'])
    t.is((await post(ana, { fields: { redirect } })).status, 204, redirect)
})

test('a checksum and an MD5 in fields are verified, and the checksum is stored', async t => {
  const ana = await s3Account(api())
  const md5 = createHash('md5').update('content').digest('base64')
  const sha256 = createHash('sha256').update('content').digest('base64')
  t.is((await post(ana, { fields: { 'x-amz-checksum-sha256': sha256, 'content-md5': md5 } })).status, 204)
  t.is((await objectOf(ana, 'form.txt')).ChecksumSHA256, sha256)
})

// Serial, because it counts all stored files.
test.serial('a form that is refused leaves nothing', async t => {
  const ana = await s3Account(api())
  const before = await storedFor(api(), ana.user)
  const large = randomBytes(2 * MiB)
  const fields = signedFields(ana)
  const { key: _, ...keyless } = fields
  const wrong = createHash('sha256').update('other').digest('base64')
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`x-ignore-${n}`, '']))
  const parts = (...own: Buffer[]) =>
    Buffer.concat([...Object.entries(fields).map(([name, value]) => formPart(name, value)), ...own])
  const range = (min: number, max: number) => ({
    conditions: [
      ['starts-with', '$key', ''],
      ['content-length-range', min, max],
    ],
  })
  type Case = [code: string, what: string, body: Buffer]
  const cases: Case[] = [
    ['AccessDenied', 'expired', formBody(signedFields(ana, { expiration: new Date(0) }))],
    ['SignatureDoesNotMatch', 'another secret', formBody(signedFields(ana, { secretAccessKey: 'x' }))],
    ['SignatureDoesNotMatch', 'another policy', formBody({ ...fields, policy: `${fields.policy}=` })],
    [
      'InvalidAccessKeyId',
      'an unknown key',
      formBody({
        ...fields,
        'x-amz-credential': fields['x-amz-credential']!.replace(/^\w+/, 'BRTH00000000000000000000'),
      }),
    ],
    ['AccessDenied', 'an extra field', formBody({ ...fields, 'x-amz-meta-extra': 'x' })],
    ['AccessDenied', 'a field that differs', formBody(signedFields(ana, { conditions: [{ key: 'other' }] }))],
    [
      'AccessDenied',
      'a beginning that differs',
      formBody(signedFields(ana, { conditions: [['starts-with', '$key', 'users/']] })),
    ],
    ['AccessDenied', 'no policy', formBody({ key: 'x' })],
    ['InvalidArgument', 'no key', formBody(keyless)],
    ['InvalidArgument', 'no file', Buffer.concat([parts(), formEnd])],
    [
      'InvalidArgument',
      'a field that comes twice',
      parts(formPart('key', 'other'), formPart('file', 'x', 'x'), formEnd),
    ],
    [
      'InvalidArgument',
      'a header that cannot be one',
      formBody(signedFields(ana, { fields: { 'content-type': 'a\r\nb: c' } })),
    ],
    [
      'InvalidArgument',
      'a name of metadata that cannot be one',
      formBody(signedFields(ana, { fields: { 'x-amz-meta-a b': 'x' } })),
    ],
    ['InvalidArgument', 'metadata with NUL', formBody(signedFields(ana, { fields: { 'x-amz-meta-a': 'x\0y' } }))],
    ...['acl', 'x-amz-acl'].map((name): Case => {
      const body = formBody(signedFields(ana, { fields: { [name]: 'public-read' } }))
      return ['AccessControlListNotSupported', name, body]
    }),
    ['NotImplemented', 'tags', formBody(signedFields(ana, { fields: { tagging: '<Tagging/>' } }))],
    ['KeyTooLongError', 'a long key', formBody(signedFields(ana, { fields: { key: 'x'.repeat(1025) } }))],
    [
      'EntityTooLarge',
      '21 KB of fields',
      formBody(signedFields(ana, { fields: { 'x-ignore-it': 'x'.repeat(21_000) } })),
    ],
    ['EntityTooLarge', 'too many fields', formBody({ ...many, ...fields })],
    ['EntityTooLarge', 'a large file', formBody(signedFields(ana, range(0, MiB)), large)],
    ['EntityTooLarge', 'a small file that is larger than allowed', formBody(signedFields(ana, range(0, 6)), 'content')],
    ['EntityTooSmall', 'a small file', formBody(signedFields(ana, range(8, 20)), 'content')],
    [
      'BadDigest',
      'another checksum',
      formBody(signedFields(ana, { fields: { 'x-amz-checksum-sha256': wrong } }), large),
    ],
    [
      'BadDigest',
      'another MD5',
      formBody(signedFields(ana, { fields: { 'content-md5': createHash('md5').digest('base64') } })),
    ],
    ['InvalidDigest', 'no MD5', formBody(signedFields(ana, { fields: { 'content-md5': 'x' } }))],
    ['MalformedPOSTRequest', 'no last boundary', parts(formPart('file', large, 'x'))],
    ['MalformedPOSTRequest', 'no last boundary, and a small file', parts(formPart('file', 'x', 'x'))],
    ['MalformedPOSTRequest', 'no form', Buffer.from('nonsense')],
    ['MalformedPOSTRequest', 'a part without a name', parts(namelessPart, formPart('file', 'x', 'x'), formEnd)],
  ]
  for (const [code, what, body] of cases) {
    const answer = await postForm(api(), body)
    t.is(answer.code, code, `${what}: ${answer.text}`)
  }
  t.is((await postForm(api(), formBody(fields), 'public')).code, 'AccessDenied', 'the policy is for another bucket')
  const free = await s3Account(api())
  await api().db('users').where({ id: free.user.id }).update({ plan: 'free' })
  t.is((await postForm(api(), formBody(signedFields(free)))).code, 'AccessDenied', 'the plan is free')
  t.deepEqual(await storedFor(api(), ana.user), before)
})

// Serial for the same reason.
test.serial('an interrupted form leaves nothing', async t => {
  const ana = await s3Account(api())
  const before = await storedFor(api(), ana.user)
  const whole = formBody(signedFields(ana), randomBytes(2 * MiB))
  for (const cut of [100, 1500, whole.length - 100_000, whole.length - 5]) {
    const socket = connect(Number(new URL(api().s3Url).port), '127.0.0.1')
    const head = `POST /private HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\nContent-Length: ${whole.length}\r\n\r\n`
    await new Promise<void>(resolve =>
      socket.write(Buffer.concat([Buffer.from(head), whole.subarray(0, cut)]), () => resolve()),
    )
    // Some bytes of the file are in the store by then.
    if (cut > MiB) await comesTrue(async () => (await storedFor(api(), ana.user)).files > before.files)
    socket.destroy()
    await comesTrue(async () => JSON.stringify(await storedFor(api(), ana.user)) === JSON.stringify(before))
  }
  t.pass()
})

test('fields after the file are ignored, and so is a second file', async t => {
  const ana = await s3Account(api())
  const fields = Object.entries(signedFields(ana)).map(([name, value]) => formPart(name, value))
  const file = formPart('file', 'first', 'a')
  const late = await postForm(
    api(),
    Buffer.concat([...fields, file, formPart('key', 'late'), formPart('file', 'second', 'b'), formEnd]),
  )
  t.is(late.status, 204, late.text)
  t.is((await objectOf(ana, 'form.txt')).text, 'first')
  const nameless = await postForm(api(), Buffer.concat([...fields, formPart('file', 'without a name'), formEnd]))
  t.is(nameless.status, 204, nameless.text)
  t.is((await objectOf(ana, 'form.txt')).text, 'without a name')
})

test('a large file of a form arrives whole', async t => {
  const ana = await s3Account(api())
  const file = randomBytes(3 * MiB)
  t.is((await post(ana, {}, file)).status, 204)
  const got = await ana.send(new GetObjectCommand({ Bucket, Key: 'form.txt' }))
  t.true(Buffer.from(await got.Body!.transformToByteArray()).equals(file))
})
