import fc from 'fast-check'
import type { RawRequest } from './raw-requests.ts'
import { documents, oddValues } from './s3-bodies.ts'

/** Names that mean something to S3, and some that mean nothing. */
const parameters =
  `acl attributes cors delete legal-hold lifecycle list-type location max-keys max-parts max-uploads object-lock partNumber policy
  prefix delimiter marker start-after continuation-token encoding-type fetch-owner retention tagging torrent uploadId uploads key-marker
  upload-id-marker part-number-marker version-id-marker versionId versioning versions select x-id response-content-type
  response-content-disposition response-cache-control response-expires X-Amz-Expires X-Amz-Signature X-Amz-Algorithm constructor __proto__`
    .trim()
    .split(/\s+/)

const headerNames =
  `content-type content-disposition content-encoding content-language cache-control expires content-md5 expect origin range
  if-match if-none-match if-modified-since if-unmodified-since if-range x-amz-acl x-amz-tagging x-amz-storage-class x-amz-copy-source
  x-amz-copy-source-range x-amz-copy-source-if-match x-amz-copy-source-if-modified-since x-amz-metadata-directive x-amz-tagging-directive
  x-amz-checksum-crc32 x-amz-checksum-crc64nvme x-amz-checksum-sha256 x-amz-checksum-mode x-amz-checksum-algorithm x-amz-checksum-type
  x-amz-sdk-checksum-algorithm x-amz-trailer x-amz-decoded-content-length x-amz-object-attributes x-amz-max-parts x-amz-mp-object-size
  x-amz-meta-a x-amz-meta-__proto__ x-amz-meta- x-amz-date x-amz-content-sha256 x-amz-expected-bucket-owner x-amz-website-redirect-location
  authorization transfer-encoding content-length host date x-http-method-override x-forwarded-for`
    .trim()
    .split(/\s+/)

/** What a run knows of its account: names that exist. */
export interface Known {
  keys: readonly string[]
  uploadId: string
  /** Of another account. */
  foreignUploadId: string
}

const latin1 = fc.stringMatching(/^[\t -~\x80-\xff]{0,12}$/)
const encodedText = fc.oneof(
  fc.constantFrom(...oddValues.map(encodeURIComponent)),
  fc.string({ unit: 'binary', maxLength: 8 }).map(text => encodeURIComponent(text)),
  fc.stringMatching(/^(?:[a-z/+]|%[0-9A-Fa-f]{2}){0,10}$/),
)

/** The path of a request: mostly of an object that exists. */
const targets = ({ keys }: Known) => {
  const segment = fc.oneof(
    fc.constantFrom(...keys, '.', '..', '', '%2F', '%2e%2e', 'a%2Fb', '%F0%9F%90%8E', '%C3', '%00', 'x'.repeat(1025)),
    fc.stringMatching(/^[!"$-;=@-~]{0,8}$/),
  )
  const bucket = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom('private', 'public') },
    fc.constantFrom('legacy', 'constructor', '__proto__', 'x-private', 'PRIVATE', '', 'privat%65', 'private%2Fa'),
  )
  const path = fc
    .tuple(bucket, fc.array(segment, { maxLength: 3 }))
    .map(([name, rest]) => `/${[name, ...rest].join('/')}`)
  const known = fc.tuple(bucket, fc.constantFrom(...keys)).map(([name, key]) => `/${name}/${key}`)
  return fc.oneof(
    { weight: 4, arbitrary: known },
    { weight: 3, arbitrary: path },
    fc.constantFrom('/', '*', '//', 'http://x/private/a'),
  )
}

const queries = ({ uploadId, foreignUploadId }: Known) => {
  const pair = fc.oneof(
    fc.tuple(fc.constantFrom(...parameters), encodedText).map(([name, value]) => `${name}=${value}`),
    fc.constantFrom(
      ...parameters,
      `uploadId=${uploadId}`,
      `uploadId=${foreignUploadId}`,
      'partNumber=1',
      'list-type=2',
    ),
    encodedText,
  )
  return fc.array(pair, { maxLength: 3 }).map(pairs => (pairs.length > 0 ? `?${pairs.join('&')}` : ''))
}

const headers = ({ keys }: Known) => {
  const value = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...oddValues) },
    fc.constantFrom(
      ...keys.map(key => `/private/${key}`),
      '/private/%00',
      'public/../private/a',
      '/legacy/x?versionId=1',
    ),
    latin1,
  )
  return fc.array(fc.tuple(fc.constantFrom(...headerNames), value), { maxLength: 4 })
}

const bodies = fc.oneof(
  fc.constant(Buffer.alloc(0)),
  fc.uint8Array({ maxLength: 64 }).map(bytes => Buffer.from(bytes)),
  documents,
  fc.constant(Buffer.alloc(20_000, 'x')),
)

/** Requests that would be answered with success, if it were not for one header more. */
const almostPlain = ({ keys, uploadId }: Known): fc.Arbitrary<RawRequest> => {
  const key = fc.constantFrom(...keys)
  const copy = fc.tuple(key, key).map(([from, to]) => ['PUT', `/public/${to}`, `/private/${from}`] as const)
  const partCopy = key.map(from => ['PUT', `/private/a?partNumber=2&uploadId=${uploadId}`, `/private/${from}`] as const)
  const others = key.chain(name =>
    fc.constantFrom(
      ['GET', `/private/${name}`] as const,
      ['HEAD', `/public/${name}`] as const,
      ['PUT', `/public/${name}`] as const,
      ['PUT', `/private/a?partNumber=1&uploadId=${uploadId}`] as const,
      ['GET', `/private/a?uploadId=${uploadId}`] as const,
      ['GET', '/private?list-type=2&delimiter=/&encoding-type=url'] as const,
      ['GET', '/private?uploads'] as const,
      ['GET', '/'] as const,
    ),
  )
  const odd = fc.option(fc.tuple(fc.constantFrom(...headerNames), fc.constantFrom(...oddValues)))
  return fc.tuple(fc.oneof(copy, partCopy, others), odd, bodies).map(([[method, target, source], more, body]) => ({
    method,
    target,
    headers: [...(source ? [['x-amz-copy-source', source] as [string, string]] : []), ...(more ? [more] : [])],
    body: method === 'PUT' && !source ? body : Buffer.alloc(0),
  }))
}

/** Requests of which every part may be odd. */
export const requests = (known: Known): fc.Arbitrary<RawRequest> => fc.oneof(almostPlain(known), oddRequests(known))

const oddRequests = (known: Known): fc.Arbitrary<RawRequest> =>
  fc
    .record({
      method: fc.oneof(
        { weight: 9, arbitrary: fc.constantFrom('GET', 'PUT', 'POST', 'HEAD', 'DELETE') },
        fc.constantFrom('OPTIONS', 'PATCH', 'PROPFIND'),
      ),
      path: targets(known),
      query: queries(known),
      headers: headers(known),
      body: bodies,
    })
    .map(({ path, query, ...rest }) => ({ ...rest, target: path + query }))
