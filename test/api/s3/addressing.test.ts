import test from 'ava'
import { addressOf } from '../../../api/s3/addressing.ts'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'
import type { S3Error } from '../../../policy/s3/s3-errors.ts'

const address = (target: string, host = 's3.example.test') => {
  const { bucket, key } = addressOf(signedRequest({ method: 'GET', target, rawHeaders: ['Host', host] }), [
    's3.example.test',
  ])
  return [bucket, key]
}

test('a path names the bucket and the key, which is not normalized', t => {
  const cases: Record<string, [string | null, string | null]> = {
    '/': [null, null],
    '/?x-id=ListBuckets': [null, null],
    '/private': ['private', null],
    '/private/': ['private', null],
    '/private//': ['private', '/'],
    '/private/a/': ['private', 'a/'],
    '/private/d//x': ['private', 'd//x'],
    '/private/d/../x': ['private', 'd/../x'],
    '/private/d/./x': ['private', 'd/./x'],
    '/private/a%2Fb+c%20d': ['private', 'a/b+c d'],
    '/private/%25': ['private', '%'],
    '/private/%F0%9F%90%8E': ['private', '🐎'],
  }
  for (const [target, expected] of Object.entries(cases)) t.deepEqual(address(target), expected, target)
})

test('a host names the bucket, and the whole path is the key', t => {
  t.deepEqual(address('/a/b', 'private.s3.example.test'), ['private', 'a/b'])
  t.deepEqual(address('/', 'Private.S3.example.test:9000'), ['private', null])
  t.deepEqual(address('/a', 'my.own.bucket.s3.example.test'), ['my.own.bucket', 'a'])
  t.deepEqual(address('/private/a', 's3.example.test:9000'), ['private', 'a'])
  t.deepEqual(address('/private/a', 'xs3.example.test'), ['private', 'a'], 'another host')
})

test('a key has up to 1024 bytes, and no NUL', t => {
  t.deepEqual(address(`/b/${'%C3%A9'.repeat(512)}`), ['b', 'é'.repeat(512)])
  const tooLong = t.throws(() => address(`/b/${'%C3%A9'.repeat(512)}x`), { code: 'KeyTooLongError' })
  t.deepEqual((tooLong as S3Error).elements, { Size: '1025', MaxSizeAllowed: '1024' })
  t.throws(() => address('/b/a%00b'), { code: 'InvalidArgument' })
})
