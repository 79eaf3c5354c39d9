import { Agent, request } from 'node:http'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'
import { answerOf, elementOf, S3Wire, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()

test('an error names its resource and the ids of its request', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const target = '/private/a%26b%3Cc/%C3%A9?response-content-type=x'
  const answer = await wire.send('GET', target)
  t.is(answer.status, 404)
  t.is(answer.headers['content-type'], 'application/xml')
  t.is(answer.headers['cache-control'], 'no-store')
  t.regex(answer.text, /^<\?xml version="1.0" encoding="UTF-8"\?>\n<Error><Code>NoSuchKey<\/Code>/)
  t.is(elementOf(answer, 'Message'), 'The key does not exist.')
  t.is(elementOf(answer, 'Key'), 'a&amp;b&lt;c/é')
  t.is(elementOf(answer, 'Resource'), '/private/a%26b%3Cc/%C3%A9')
  t.truthy(answer.headers['x-amz-request-id'])
  t.is(elementOf(answer, 'RequestId'), String(answer.headers['x-amz-request-id']))
  t.is(answer.headers['x-request-id'], answer.headers['x-amz-request-id'])
  t.regex(String(answer.headers['x-amz-id-2']), /^[A-Za-z0-9+/=]{16,}$/)
  t.is(answer.headers['content-length'], String(answer.bytes.length))
})

test('successful responses have request ids too', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const answers = [
    await wire.send('PUT', '/private/k', { body: 'x' }),
    await wire.send('GET', '/private/k'),
    await wire.send('HEAD', '/private/k'),
    await wire.send('GET', '/private/k', { headers: { 'if-none-match': '*' } }),
    await wire.send('DELETE', '/private/k'),
  ]
  t.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 304, 204],
  )
  for (const { headers } of answers) t.truthy(headers['x-amz-request-id'] && headers['x-amz-id-2'])
  t.is(new Set(answers.map(({ headers }) => headers['x-amz-request-id'])).size, 5)
})

test('the error of a HEAD has no body', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  for (const [target, status] of [
    ['/private/none', 404],
    ['/none/k', 404],
    ['/private/none?partNumber=0', 404],
  ] as const)
    t.like(await wire.send('HEAD', target), { status, text: '' }, target)
  t.like(await wire.raw('HEAD', '/private/k', {}), { status: 403, text: '' })
})

test('nothing is answered without a valid signature', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/public/k', { body: 'x' })
  t.is((await wire.raw('GET', '/public/k', {})).code, 'AccessDenied', 'nor objects that are public')
  const none = new S3Wire(api().s3Url, { accessKeyId: 'BRTH0000000000000000', secretAccessKey: 'x' })
  t.deepEqual(await none.send('GET', '/public/k').then(({ status, code }) => [status, code]), [
    403,
    'InvalidAccessKeyId',
  ])
  const { body } = await api().blobAs(ana).get('/v1/s3/credentials')
  const forger = new S3Wire(api().s3Url, { accessKeyId: body.response.access_key_id, secretAccessKey: 'x' })
  for (const [method, target] of [
    ['GET', '/public/k'],
    ['PUT', '/public/k'],
    ['DELETE', '/public/k'],
    ['POST', '/public?delete'],
  ] as const) {
    const refused = await forger.send(method, target, { body: method === 'PUT' ? 'y' : '' })
    t.deepEqual([refused.status, refused.code], [403, 'SignatureDoesNotMatch'], method)
    t.is(elementOf(refused, 'AWSAccessKeyId'), body.response.access_key_id)
  }
  t.is((await forger.raw('GET', forger.presigned('GET', '/public/k'), {})).code, 'SignatureDoesNotMatch')
  t.is((await wire.raw('PUT', wire.presigned('GET', '/public/k'), {}, Buffer.from('y'))).code, 'SignatureDoesNotMatch')
  t.is((await wire.send('GET', '/public/k')).text, 'x')
})

test('an account cannot access the objects of another account', async t => {
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  await (await wireOf(api(), ana)).send('PUT', '/private/k', { body: 'x' })
  const wire = await wireOf(api(), bob)
  t.is((await wire.send('GET', '/private/k')).code, 'NoSuchKey')
  t.is((await wire.send('DELETE', '/private/k')).status, 204)
  t.is((await api().db('objects').where({ owner_id: ana.id })).length, 1)
  const expecting = (owner: string) =>
    wire.send('PUT', '/private/k', { headers: { 'x-amz-expected-bucket-owner': owner } })
  t.is((await expecting(ana.id)).code, 'AccessDenied')
  t.is((await expecting(bob.id)).status, 200)
})

test('a connection can be used again after a refusal, whether the body was read or not', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const { hostname, port } = new URL(api().s3Url)
  const body = Buffer.alloc(300_000)
  const on = (method: string, path: string, bytes = Buffer.alloc(0)) =>
    answerOf(request({ hostname, port, method, path, agent, headers: { 'content-length': bytes.length } }).end(bytes))
  const codes: unknown[] = []
  for (const path of [
    wire.presigned('PUT', '/legacy/k'),
    '/private/k',
    wire.presigned('PUT', `/private/${'x'.repeat(1025)}`),
  ])
    codes.push((await on('PUT', path, body)).code)
  t.deepEqual(codes, ['AccessDenied', 'AccessDenied', 'KeyTooLongError'])
  t.is((await on('PUT', wire.presigned('PUT', '/private/k'), body)).status, 200)
  t.true((await on('GET', wire.presigned('GET', '/private/k'))).bytes.equals(body))
  agent.destroy()
})

test.serial('a failure of the object store is ServiceUnavailable', async t => {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const { store } = api()
  const put = () => wire.send('PUT', '/private/long', { body: 'x'.repeat(20_000) })
  store.failing = true
  try {
    t.like(await put(), { status: 503, code: 'ServiceUnavailable' })
  } finally {
    store.failing = false
  }
  t.is((await put()).status, 200)
})
