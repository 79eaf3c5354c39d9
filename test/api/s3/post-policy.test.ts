import test from 'ava'
import { checkPolicy, verifyPolicy } from '../../../api/s3/signature/post-policy.ts'
import { signingKey } from '../../../api/s3/signature/signing.ts'

// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-post-example.html
const policy =
  'eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9'
const published: Record<string, string> = {
  bucket: 'sigv4examplebucket',
  key: 'user/user1/photo.jpg',
  acl: 'public-read',
  success_action_redirect: 'http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html',
  'content-type': 'image/jpeg',
  'x-amz-meta-uuid': '14365123651274',
  'x-amz-server-side-encryption': 'AES256',
  'x-amz-meta-tag': '',
  'x-amz-credential': 'AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request',
  'x-amz-algorithm': 'AWS4-HMAC-SHA256',
  'x-amz-date': '20151229T000000Z',
  policy,
  'x-amz-signature': '8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e',
}
const key = signingKey('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', {
  date: '20151229',
  region: 'us-east-1',
  service: 's3',
})
const expiresAt = Date.UTC(2015, 11, 30, 12)
const form = (own: Record<string, string> = {}) => new Map(Object.entries({ ...published, ...own }))

test('the published form is verified until its policy expires', t => {
  t.notThrows(() => verifyPolicy(form(), { key }))
  t.throws(() => verifyPolicy(form({ policy: `${policy}=` }), { key }), { code: 'SignatureDoesNotMatch' })
  t.throws(() => verifyPolicy(form({ 'x-amz-signature': '' }), { key }), { code: 'SignatureDoesNotMatch' })
  t.deepEqual(checkPolicy(form(), expiresAt), { min: 0, max: Number.MAX_SAFE_INTEGER })
  t.throws(() => checkPolicy(form(), expiresAt + 1), { code: 'AccessDenied', message: 'Policy expired.' })
})

test('every field must be as its condition says, and have one', t => {
  const refused = {
    bucket: 'another',
    key: 'user/user2/photo.jpg',
    acl: 'private',
    'content-type': 'image/jpeg, text/html',
    'x-amz-meta-uuid': '',
    'x-amz-meta-more': 'x',
  }
  for (const [name, value] of Object.entries(refused))
    t.throws(() => checkPolicy(form({ [name]: value }), 0), { code: 'AccessDenied' }, name)
  const allowed: Record<string, string>[] = [
    { 'x-ignore-more': 'x' },
    { 'content-type': 'image/png,image/jpeg' },
    { 'x-amz-meta-tag': 'any' },
  ]
  for (const fields of allowed) t.notThrows(() => checkPolicy(form(fields), 0))
  const missing = form()
  missing.delete('x-amz-meta-uuid')
  t.throws(() => checkPolicy(missing, 0), { code: 'AccessDenied' })
})

const own = (conditions: unknown, expiration = '2030-01-01T00:00:00Z') =>
  new Map([['policy', Buffer.from(JSON.stringify({ expiration, conditions })).toString('base64')]])

test('ranges of sizes narrow each other', t => {
  const ranges = [
    ['content-length-range', 1, 100],
    ['content-length-range', 10, 1000],
  ]
  t.deepEqual(checkPolicy(own(ranges), 0), { min: 10, max: 100 })
})

test('a malformed policy is refused', t => {
  const malformed = [
    own([['contains', '$key', 'x']]),
    own([['size', 1, 2]]),
    own([['starts-with', '$key']]),
    own([[1, 2, 3, 4]]),
    own({ key: 'x' }),
    own([], 'tomorrow'),
    new Map([['policy', 'no json']]),
    new Map([['policy', '']]),
    new Map<string, string>(),
  ]
  for (const [n, fields] of malformed.entries())
    t.throws(() => checkPolicy(fields, 0), { code: 'InvalidArgument' }, `policy ${n}`)
})
