import { createHash } from 'node:crypto'
import { request } from 'node:http'
import test from 'ava'
import { parseConfig } from '../../policy/config.ts'
import { testApi } from '../kit/actors/api.ts'
import { s3Account } from '../kit/s3/account.ts'
import { answerOf, objectPath, S3Wire } from '../kit/s3/wire.ts'
import { startProxy, type TestProxy } from '../kit/servers/proxy.ts'

const domain = 'berth.test'
const { edge } = parseConfig({ BERTH_MASTER_KEY: 'a'.repeat(64), BERTH_DOMAIN: domain }, '/')
const api = testApi({ config: { edge } })

let starting: Promise<TestProxy> | undefined
test.serial.after.always('stop the proxy', async () => (await starting)?.stop())

/** The proxy before the gateway. */
function theProxy(): Promise<TestProxy> {
  const gateway = [`127.0.0.1:${new URL(api().s3Url).port}`]
  const targets = { api: gateway, blob: gateway, s3: gateway, files: gateway, public: gateway }
  starting ??= startProxy({ BERTH_DOMAIN: domain }, () => ({ targets }))
  return starting
}

/** Keys that proxies like to fold, decode or merge. */
const keys = [
  'plain.txt',
  'd//x',
  'd/../x',
  'd/./y',
  '/leading',
  'trailing/',
  'a b+c&d=e',
  "!'()*~-_.",
  '%41%2F%00',
  'ü/🐎',
  'a?b#c;d',
  'back\\slash"quote<>',
  'x\ty\nz\u0001',
]

/** Sends what is signed for a host through the proxy, which is at another address. */
class Proxied extends S3Wire {
  constructor(host: string, pair: ConstructorParameters<typeof S3Wire>[1]) {
    super(`http://${host}`, pair)
  }

  override async raw(method: string, path: string, headers: Record<string, string>, body: Buffer = Buffer.alloc(0)) {
    const { port } = await theProxy()
    const sending = request({ port, host: '127.0.0.1', method, path, agent: false, headers })
    sending.end(body)
    return answerOf(sending)
  }
}

const hosts = {
  [`s3.${domain}`]: (key: string) => objectPath('private', key),
  [`private.s3.${domain}`]: (key: string) => objectPath('private', key).replace('/private', ''),
}

for (const [host, pathOf] of Object.entries(hosts))
  test(`a signed PUT of any key, in chunks with a trailer too, and a presigned GET pass the proxy unchanged at ${host}`, async t => {
    const { credentials, user } = await s3Account(api())
    const wire = new Proxied(host, credentials)
    for (const key of keys) {
      const put = await wire.send('PUT', pathOf(key), { body: `of ${key}`, headers: { 'x-amz-meta-a': 'b  c' } })
      t.is(put.status, 200, `${key}: ${put.text}`)
      const got = await wire.raw('GET', wire.presigned('GET', pathOf(key)), { host })
      t.deepEqual([got.status, got.text], [200, `of ${key}`], key)
      const body = `chunks of ${key}`
      const trailer = { name: 'x-amz-checksum-sha256', value: createHash('sha256').update(body).digest('base64') }
      for (const signed of [true, false]) {
        const framed = await wire.sendFramed(pathOf(key), body, { signed, size: 5, trailer })
        t.is(framed.status, 200, `${key}: ${framed.text}`)
        t.is(framed.headers['x-amz-checksum-sha256'], trailer.value)
      }
      t.is((await wire.send('GET', pathOf(key))).text, body)
    }
    const stored = await api().db('objects').where({ owner_id: user.id }).pluck('key')
    t.deepEqual(stored.sort(), [...keys].sort())
    const wrong = await wire.sendFramed(pathOf('plain.txt'), 'x', {
      signed: true,
      trailer: { name: 'x-amz-checksum-sha256', value: createHash('sha256').update('y').digest('base64') },
    })
    t.is(wrong.code, 'BadDigest')
  })

test('a bucket is named by the host, and the whole path is the key, as by a path', async t => {
  const { credentials } = await s3Account(api())
  const [byPath, byHost] = [`s3.${domain}`, `private.s3.${domain}`].map(host => new Proxied(host, credentials))
  t.is((await byHost!.send('PUT', '/private/a', { body: 'x' })).status, 200)
  t.is((await byPath!.send('GET', '/private/private/a')).text, 'x')
  t.regex((await byHost!.send('GET', '/?list-type=2')).text, /<Key>private\/a<\/Key>/)
  t.is((await byHost!.send('HEAD', '/')).status, 200)
  t.is((await byPath!.send('GET', '/')).text.match(/<Bucket>/g)?.length, 3)
  t.is((await new Proxied(`unknown.s3.${domain}`, credentials).send('GET', '/a')).code, 'NoSuchBucket')
  const elsewhere = await byPath!.raw('GET', byHost!.presigned('GET', '/private/a'), { host: `s3.${domain}` })
  t.is(elsewhere.code, 'SignatureDoesNotMatch', 'the host is signed')
})
