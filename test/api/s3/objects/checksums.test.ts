import { createHash, randomBytes } from 'node:crypto'
import test from 'ava'
import { type ChecksumAlgorithm, checksum } from '../../../../lib/checksums.ts'
import { testApi } from '../../../kit/actors/api.ts'
import { storedFor } from '../../../kit/s3/remains.ts'
import { wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
const algorithms: ChecksumAlgorithm[] = ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256']
const known: Record<ChecksumAlgorithm, string> = {
  CRC32: 'NhCmhg==',
  CRC32C: 'mnG7TA==',
  CRC64NVME: 'M3eFcAZSQlc=',
  SHA1: 'qvTGHdzF6KLavt4PO0gs2a6pQ00=',
  SHA256: 'LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=',
}
const headerOf = (algorithm: string) => `x-amz-checksum-${algorithm.toLowerCase()}`

function sumOf(algorithm: ChecksumAlgorithm, bytes: Buffer): string {
  const sum = checksum(algorithm)
  sum.update(bytes)
  return sum.digest().toString('base64')
}

async function account() {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  const shown = async (target: string) =>
    (await wire.send('HEAD', target, { headers: { 'x-amz-checksum-mode': 'ENABLED' } })).headers
  return { ana, wire, shown }
}

test('a checksum in a header is verified, returned and stored', async t => {
  const { wire, shown } = await account()
  for (const algorithm of algorithms)
    for (const payload of [undefined, 'UNSIGNED-PAYLOAD']) {
      const headers = { [headerOf(algorithm)]: known[algorithm], 'x-amz-sdk-checksum-algorithm': algorithm }
      const put = await wire.send('PUT', `/private/${algorithm}`, { body: 'hello', headers, payload })
      t.is(put.status, 200, `${algorithm} ${put.text}`)
      t.is(put.headers[headerOf(algorithm)], known[algorithm])
      const stored = await shown(`/private/${algorithm}`)
      const names = Object.keys(stored).filter(name => name.startsWith('x-amz-checksum-'))
      t.deepEqual(names.sort(), [headerOf(algorithm), 'x-amz-checksum-type'].sort())
      t.like(stored, { [headerOf(algorithm)]: known[algorithm], 'x-amz-checksum-type': 'FULL_OBJECT' })
    }
})

test('a checksum in a trailer is verified, over signed and unsigned chunks of every size', async t => {
  const { wire, shown } = await account()
  const body = randomBytes(70_000)
  for (const algorithm of algorithms)
    for (const signed of [true, false])
      for (const size of [1000, 65_536, undefined]) {
        const trailer = { name: headerOf(algorithm), value: sumOf(algorithm, body) }
        const put = await wire.sendFramed('/private/k', body, { signed, size, trailer })
        t.is(put.status, 200, `${algorithm} ${signed} ${size} ${put.text}`)
        t.is((await shown('/private/k'))[headerOf(algorithm)], trailer.value)
      }
  t.true((await wire.send('GET', '/private/k')).bytes.equals(body))
})

test('a checksum in a header is verified over chunks as well', async t => {
  const { wire } = await account()
  for (const signed of [true, false]) {
    const sent = (value: string) =>
      wire.sendFramed('/private/k', 'hello', { signed }, { headers: { [headerOf('SHA1')]: value } })
    t.is((await sent(known.SHA1)).status, 200)
    t.is((await sent(`${'A'.repeat(27)}=`)).code, 'BadDigest')
  }
})

test.serial('a wrong checksum in a header or a trailer is refused, and leaves nothing', async t => {
  for (const body of [Buffer.from('hello'), randomBytes(50_000)]) {
    const { ana, wire } = await account()
    const before = await storedFor(api(), ana)
    for (const algorithm of algorithms) {
      const value = sumOf(algorithm, Buffer.from('other'))
      const headers = { [headerOf(algorithm)]: value }
      const answers = [
        await wire.send('PUT', '/private/k', { body, headers }),
        await wire.send('PUT', '/private/k', { body, headers, payload: 'UNSIGNED-PAYLOAD' }),
        await wire.sendFramed('/private/k', body, { signed: true, trailer: { name: headerOf(algorithm), value } }),
        await wire.sendFramed('/private/k', body, {
          signed: false,
          size: 999,
          trailer: { name: headerOf(algorithm), value },
        }),
      ]
      for (const { status, code } of answers) t.deepEqual([status, code], [400, 'BadDigest'], algorithm)
    }
    t.deepEqual(await storedFor(api(), ana), before)
  }
})

test('a request must have one checksum, of a supported algorithm and well-formed', async t => {
  const { ana, wire } = await account()
  const put = (headers: Record<string, string>) => wire.send('PUT', '/private/k', { body: 'hello', headers })
  const framed = (headers: Record<string, string>, name = headerOf('CRC32'), value = known.CRC32) =>
    wire.sendFramed('/private/k', 'hello', { signed: false, trailer: { name, value } }, { headers })
  for (const [what, answer] of Object.entries({
    'two in headers': await put({ [headerOf('CRC32')]: known.CRC32, [headerOf('SHA1')]: known.SHA1 }),
    'one in a header and one in a trailer': await framed({ [headerOf('SHA1')]: known.SHA1 }),
    'an unknown one': await put({ 'x-amz-checksum-xxhash64': 'AAAAAAAAAAA=' }),
    'an unknown one in a trailer': await framed({}, 'x-amz-checksum-md5', 'XUFAKrxLKna5cZ2REBfFkg=='),
    'another trailer': await framed({}, 'x-own', 'x'),
    'no base64': await put({ [headerOf('CRC32')]: '????' }),
    'too short': await put({ [headerOf('CRC32')]: 'NhCm' }),
    'of another length': await put({ [headerOf('SHA256')]: known.SHA1 }),
    'not the canonical base64': await put({ [headerOf('CRC32')]: 'NhCmhh==' }),
    hex: await put({ [headerOf('CRC32')]: '3610a686' }),
    'another algorithm than announced': await put({
      [headerOf('CRC32')]: known.CRC32,
      'x-amz-sdk-checksum-algorithm': 'SHA1',
    }),
    'an unknown algorithm announced': await put({ 'x-amz-sdk-checksum-algorithm': 'MD4' }),
  }))
    t.deepEqual([answer.status, answer.code], [400, 'InvalidRequest'], what)
  t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
})

test('Content-MD5 is verified alongside every checksum', async t => {
  const { ana, wire } = await account()
  const md5 = (text: string) => createHash('md5').update(text).digest('base64')
  for (const more of [{}, ...algorithms.map(algorithm => ({ [headerOf(algorithm)]: known[algorithm] }))] as Record<
    string,
    string
  >[]) {
    const put = (value: string) =>
      wire.send('PUT', '/private/k', { body: 'hello', headers: { ...more, 'content-md5': value } })
    const framed = (value: string) =>
      wire.sendFramed('/private/k', 'hello', { signed: true }, { headers: { ...more, 'content-md5': value } })
    for (const way of [put, framed]) {
      t.is((await way(md5('other'))).code, 'BadDigest')
      for (const malformed of ['x', md5('hello').slice(1), '5d41402abc4b2a76b9719d911017c592'])
        t.is((await way(malformed)).code, 'InvalidDigest', malformed)
      t.deepEqual(await api().db('objects').where({ owner_id: ana.id }), [])
      t.is((await way(md5('hello'))).status, 200)
      await wire.send('DELETE', '/private/k')
    }
  }
})

test.serial('x-amz-content-sha256 is verified, and must be well-formed', async t => {
  const { ana, wire } = await account()
  const before = await storedFor(api(), ana)
  for (const body of ['hello', 'x'.repeat(20_000)]) {
    const changed = await wire.send('PUT', '/private/k', { body, sent: Buffer.from(body.replace(/.$/, 'y')) })
    t.deepEqual([changed.status, changed.code], [400, 'XAmzContentSHA256Mismatch'])
  }
  for (const [payload, code] of [
    ['x', 'InvalidArgument'],
    ['', 'InvalidArgument'],
    ['STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD', 'NotImplemented'],
    ['STREAMING-OWN', 'InvalidArgument'],
  ] as const)
    t.is((await wire.send('PUT', '/private/k', { body: 'hello', payload })).code, code, payload)
  t.deepEqual(await storedFor(api(), ana), before)
})
