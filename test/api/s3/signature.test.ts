import test from 'ava'
import { readAuthorization } from '../../../api/s3/signature/authorization.ts'
import { signedRequest } from '../../../api/s3/signature/signed-request.ts'
import { signingKey } from '../../../api/s3/signature/signing.ts'
import { checkTerms, verifySignature } from '../../../api/s3/signature/verification.ts'
import type { S3Error } from '../../../policy/s3/s3-errors.ts'

/** The key pair of the examples in the documentation of Amazon S3. */
const pair = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }
const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const signedAt = Date.UTC(2013, 4, 24)

interface Vector {
  title: string
  method: string
  target: string
  headers: Record<string, string>
  signedHeaders: string
  signature: string
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
const vectors: readonly Vector[] = [
  {
    title: 'GET of a range',
    method: 'GET',
    target: '/test.txt',
    headers: { Range: 'bytes=0-9', 'x-amz-content-sha256': empty },
    signedHeaders: 'host;range;x-amz-content-sha256;x-amz-date',
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    title: 'PUT with a key that is encoded',
    method: 'PUT',
    target: '/test$file.text',
    headers: {
      Date: 'Fri, 24 May 2013 00:00:00 GMT',
      'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    },
    signedHeaders: 'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class',
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  {
    title: 'a parameter without a value',
    method: 'GET',
    target: '/?lifecycle',
    headers: { 'x-amz-content-sha256': empty },
    signedHeaders: 'host;x-amz-content-sha256;x-amz-date',
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    title: 'parameters in order',
    method: 'GET',
    target: '/?max-keys=2&prefix=J',
    headers: { 'x-amz-content-sha256': empty },
    signedHeaders: 'host;x-amz-content-sha256;x-amz-date',
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
]

function requestOf({ method, target, headers, signedHeaders, signature }: Vector) {
  const credential = `${pair.accessKeyId}/20130524/us-east-1/s3/aws4_request`
  const all = {
    Host: 'examplebucket.s3.amazonaws.com',
    'x-amz-date': '20130524T000000Z',
    ...headers,
    Authorization: `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${signedHeaders},Signature=${signature}`,
  }
  return signedRequest({ method, target, rawHeaders: Object.entries(all).flat() })
}

function verified(request: ReturnType<typeof signedRequest>, now = signedAt, secret = pair.secret) {
  const authorization = readAuthorization(request)!
  checkTerms(request, authorization, now)
  return verifySignature(request, authorization, signingKey(secret, authorization.scope))
}

for (const vector of vectors)
  test(`the published signature is verified: ${vector.title}`, t => {
    t.notThrows(() => verified(requestOf(vector)))
    t.throws(() => verified(requestOf({ ...vector, target: `${vector.target}x` })), { code: 'SignatureDoesNotMatch' })
    t.throws(() => verified(requestOf(vector), signedAt, `${pair.secret}x`), { code: 'SignatureDoesNotMatch' })
  })

// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
const presigned = (signature = 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404', method = 'GET') =>
  signedRequest({
    method,
    target:
      '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
      `&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=${signature}`,
    rawHeaders: ['Host', 'examplebucket.s3.amazonaws.com'],
  })

test('the published address is valid for its method, from 15 minutes before it was signed until it expires', t => {
  for (const now of [signedAt - 900_000, signedAt, signedAt + 86_400_000]) t.notThrows(() => verified(presigned(), now))
  const tooEarly = t.throws(() => verified(presigned(), signedAt - 900_001), { code: 'AccessDenied' })
  t.is(tooEarly?.message, 'Request is not valid yet')
  const tooLate = t.throws(() => verified(presigned(), signedAt + 86_400_001), { code: 'AccessDenied' })
  t.is(tooLate?.message, 'Request has expired')
  t.throws(() => verified(presigned('0'.repeat(64))), { code: 'SignatureDoesNotMatch' })
  t.throws(() => verified(presigned(undefined, 'PUT')), { code: 'SignatureDoesNotMatch' })
})

test('a signature in a header is valid for 15 minutes around its time', t => {
  const request = requestOf(vectors[0]!)
  for (const now of [signedAt - 900_000, signedAt + 900_000]) t.notThrows(() => verified(request, now))
  for (const now of [signedAt - 900_001, signedAt + 900_001])
    t.throws(() => verified(request, now), { code: 'RequestTimeTooSkewed' })
})

const at = '20130524T000000Z'
const signed = (authorization: string, more: Record<string, string> = {}, target = '/k') =>
  signedRequest({
    method: 'GET',
    target,
    rawHeaders: Object.entries({
      Host: 'h',
      'x-amz-date': at,
      'x-amz-content-sha256': empty,
      Authorization: authorization,
      ...more,
    }).flat(),
  })
const good = {
  credential: `${pair.accessKeyId}/20130524/auto/s3/aws4_request`,
  headers: 'host;x-amz-content-sha256;x-amz-date',
  signature: 'a'.repeat(64),
}
const header = (own: Partial<typeof good> = {}) => {
  const { credential, headers, signature } = { ...good, ...own }
  return `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${headers}, Signature=${signature}`
}
const credential = (date: string, region = 'auto', service = 's3', end = 'aws4_request') =>
  header({ credential: [pair.accessKeyId, date, region, service, end].join('/') })

const refusals: readonly (readonly [what: string, request: () => ReturnType<typeof signedRequest>, code: string])[] = [
  ['another scheme', () => signed('AWS AKIA:abc='), 'InvalidRequest'],
  ['no fields', () => signed('AWS4-HMAC-SHA256 x'), 'AuthorizationHeaderMalformed'],
  ['a field twice', () => signed(`${header()}, Signature=${good.signature}`), 'AuthorizationHeaderMalformed'],
  ['a short signature', () => signed(header({ signature: 'ab' })), 'AuthorizationHeaderMalformed'],
  [
    'a credential of four parts',
    () => signed(header({ credential: 'a/20130524/auto/s3' })),
    'AuthorizationHeaderMalformed',
  ],
  [
    'another end of the credential',
    () => signed(credential('20130524', 'auto', 's3', 'aws3')),
    'AuthorizationHeaderMalformed',
  ],
  ['another service', () => signed(credential('20130524', 'auto', 'ec2')), 'AuthorizationHeaderMalformed'],
  ['another region', () => signed(credential('20130524', 'eu-west-1')), 'AuthorizationHeaderMalformed'],
  ['another day', () => signed(credential('20130523')), 'AuthorizationHeaderMalformed'],
  ['no time', () => signed(header(), { 'x-amz-date': 'yesterday' }), 'AccessDenied'],
  [
    'a time that does not exist',
    () => signed(credential('20139924'), { 'x-amz-date': '20139924T000000Z' }),
    'AccessDenied',
  ],
  ['host left out', () => signed(header({ headers: 'x-amz-content-sha256;x-amz-date' })), 'AccessDenied'],
  ['a header left out', () => signed(header(), { 'x-amz-acl': 'private' }), 'AccessDenied'],
  ['two signatures', () => signed(header(), {}, '/k?X-Amz-Signature=x'), 'InvalidArgument'],
  ['an incomplete percent-encoding', () => signed(header(), {}, '/%4'), 'InvalidArgument'],
  ['a path that is not UTF-8', () => signed(header(), {}, '/%ff'), 'InvalidArgument'],
  ['a query that is not UTF-8', () => signed(header(), {}, '/?a=%ff'), 'InvalidArgument'],
]

for (const [what, request, code] of refusals)
  test(`refused before the secret is needed: ${what}`, t => {
    const refuse = () => {
      const read = request()
      checkTerms(read, readAuthorization(read)!, signedAt)
    }
    t.throws(refuse, { code })
  })

test('a request for another region learns the right one', t => {
  const request = signed(credential('20130524', 'eu-west-1'))
  const refused = t.throws(() => checkTerms(request, readAuthorization(request)!, signedAt))
  t.deepEqual((refused as S3Error).elements, { Region: 'auto' })
})

test('each parameter of a presigned address is required, once, within its bounds', t => {
  const parameters: Record<string, string> = {
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': good.credential,
    'X-Amz-Date': at,
    'X-Amz-Expires': '604800',
    'X-Amz-SignedHeaders': 'host',
    'X-Amz-Signature': good.signature,
  }
  const read = (query: string) =>
    readAuthorization(signedRequest({ method: 'GET', target: `/k?${query}`, rawHeaders: [] }))
  const whole = new URLSearchParams(parameters).toString()
  t.is(read(whole)?.expiresSeconds, 604_800)
  for (const [name, value] of Object.entries(parameters)) {
    const { [name]: _, ...others } = parameters
    t.throws(() => read(`X-Amz-Algorithm=&${new URLSearchParams(others)}`), { code }, `without ${name}`)
    t.throws(() => read(`${whole}&${new URLSearchParams({ [name]: value })}`), { code }, `${name} twice`)
  }
  for (const expires of ['0', '604801', '-1', '1.5', '1e3', ' 1'])
    t.throws(() => read(new URLSearchParams({ ...parameters, 'X-Amz-Expires': expires }).toString()), { code }, expires)
})

const code = 'AuthorizationQueryParametersError'

test('a request without a signature has none', t => {
  t.is(readAuthorization(signedRequest({ method: 'GET', target: '/k?X-Amz-Date=1', rawHeaders: ['Host', 'h'] })), null)
})

test('a path is decoded once, and nothing in it is folded or merged', t => {
  const pathOf = (target: string) => {
    const { path, canonicalPaths } = signedRequest({ method: 'GET', target, rawHeaders: [] })
    return [path, ...canonicalPaths]
  }
  t.deepEqual(pathOf('/b/d//x/../y?z'), ['/b/d//x/../y', '/b/d//x/../y'])
  t.deepEqual(pathOf('/b/a%252Fb%2F+%20~'), ['/b/a%2Fb/+ ~', '/b/a%252Fb/%2B%20~', '/b/a%252Fb%2F%2B%20~'])
  t.deepEqual(pathOf('/b/%F0%9F%90%8E'), ['/b/🐎', '/b/%F0%9F%90%8E'])
  t.deepEqual(pathOf('https://host.test/b/k?x'), ['/b/k', '/b/k'])
  t.deepEqual(pathOf('http://host.test?x'), ['/', '/'])
})
