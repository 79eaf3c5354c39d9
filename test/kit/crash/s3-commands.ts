import { createHash, randomBytes } from 'node:crypto'
import { S3Client } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import type { Actor, TestApi, TestUser } from '../actors/api.ts'
import { sendForm } from '../s3/plain-request.ts'
import { elementOf, S3Wire, type WireAnswer, type WireInit, type WirePair } from '../s3/wire.ts'
import type { Change } from './change-kit.ts'

/** Somebody on the S3 wire of one process. No answer is waited for again, and no request is repeated. */
export interface S3At {
  url: string
  pair: WirePair
  wire: S3Wire
}

/** The key of an actor on the Blob API, at the process whose gateway is at `url`. */
export async function s3At(blob: Actor, url: string): Promise<S3At> {
  const { response } = (await blob.get('/v1/s3/credentials')).body
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = response
  const pair = { accessKeyId, secretAccessKey }
  return { url, pair, wire: new S3Wire(url, pair) }
}

/** A command that changes something, with what it needs in place. */
export interface S3Command {
  /** The same request each time. */
  send(at: S3At): Promise<Pick<WireAnswer, 'status' | 'headers' | 'text'>>
  /** What is there of it. */
  seen(at: S3At): Promise<unknown>
  /** What is there once it is done. */
  done: unknown
  /** In its answer. */
  etag?: string
}

const md5 = (text: string | Buffer): Buffer => createHash('md5').update(text).digest()
const hex = (text: string): string => md5(text).toString('hex')

/** A body that is stored in its row, and one that is not. */
const bodies = { small: 'short', large: 'not as short as that '.repeat(2000) }

const send =
  (method: string, target: string, init?: WireInit): S3Command['send'] =>
  ({ wire }) =>
    wire.send(method, target, init)

async function textOf({ wire }: S3At, key: string): Promise<string | null> {
  const { status, text } = await wire.send('GET', `/private/${key}`)
  return status === 200 ? text : null
}

/** Parts of an open upload; null once it is not open any more. */
async function partsOf({ wire }: S3At, key: string, id: string): Promise<string[] | null> {
  const { status, text } = await wire.send('GET', `/private/${key}?uploadId=${id}`)
  if (status !== 200) return null
  return [...text.matchAll(/<PartNumber>(\d+)<.*?<ETag>&quot;(\w+)/gs)].map(([, part, etag]) => `${part} ${etag}`)
}

async function opened({ wire }: S3At, key: string): Promise<string> {
  return elementOf(await wire.send('POST', `/private/${key}?uploads=`), 'UploadId')!
}

const putting =
  (size: keyof typeof bodies, headers: Record<string, string> = {}) =>
  async (at: S3At): Promise<S3Command> => {
    if ('if-match' in headers) await at.wire.send('PUT', '/private/put', { body: 'the one before' })
    const body = bodies[size]
    return {
      send: send('PUT', '/private/put', { body, headers }),
      seen: at => textOf(at, 'put'),
      done: body,
      etag: hex(body),
    }
  }

const posting =
  (size: keyof typeof bodies) =>
  async ({ pair: credentials }: S3At): Promise<S3Command> => ({
    async send({ url: endpoint }) {
      const client = new S3Client({ endpoint, region: 'auto', forcePathStyle: true, credentials })
      const form = await createPresignedPost(client, { Bucket: 'private', Key: 'post', Expires: 60 })
      client.destroy()
      const file = { name: 'a.txt', bytes: new Uint8Array(Buffer.from(bodies[size])) }
      const { body, ...answer } = await sendForm(form, file, { caFile: undefined })
      return { ...answer, text: body.toString() }
    },
    seen: at => textOf(at, 'post'),
    done: bodies[size],
    etag: hex(bodies[size]),
  })

/** A part of an upload, and what it is made of: a body, or the whole or a piece of an object. */
const sendingPart =
  (body: string, headers?: Record<string, string>) =>
  async (at: S3At): Promise<S3Command> => {
    if (headers) await at.wire.send('PUT', '/private/source', { body: bodies.large })
    const id = await opened(at, 'parts')
    return {
      send: send('PUT', `/private/parts?partNumber=2&uploadId=${id}`, headers ? { headers } : { body }),
      seen: at => partsOf(at, 'parts', id),
      done: [`2 ${hex(body)}`],
      etag: hex(body),
    }
  }
const source = { 'x-amz-copy-source': '/private/source' }

/** An upload with one part, and an end of it. */
const ending =
  (how: 'complete' | 'abort') =>
  async (at: S3At): Promise<S3Command> => {
    const id = await opened(at, 'whole')
    await at.wire.send('PUT', `/private/whole?partNumber=3&uploadId=${id}`, { body: bodies.large })
    const part = `<Part><PartNumber>3</PartNumber><ETag>${hex(bodies.large)}</ETag></Part>`
    const body = `<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`
    const target = `/private/whole?uploadId=${id}`
    const seen = async (at: S3At) => [await textOf(at, 'whole'), await partsOf(at, 'whole', id)]
    if (how === 'abort') return { send: send('DELETE', target), seen, done: [null, null] }
    const etag = `${md5(md5(bodies.large)).toString('hex')}-1`
    return { send: send('POST', target, { body }), seen, done: [bodies.large, null], etag }
  }

const tagging =
  (method: 'PUT' | 'DELETE') =>
  async ({ wire }: S3At): Promise<S3Command> => {
    await wire.send('PUT', '/private/tagged', { body: 'x', headers: { 'x-amz-tagging': 'a=1' } })
    const body = `<Tagging><TagSet><Tag><Key>a</Key><Value>2</Value></Tag></TagSet></Tagging>`
    return {
      send: send(method, '/private/tagged?tagging=', method === 'PUT' ? { body } : {}),
      seen: async ({ wire }) => elementOf(await wire.send('GET', '/private/tagged?tagging='), 'Value') ?? null,
      done: method === 'PUT' ? '2' : null,
    }
  }

const deleting =
  (...keys: [string, ...string[]]) =>
  async ({ wire }: S3At): Promise<S3Command> => {
    for (const key of keys) await wire.send('PUT', `/private/${key}`, { body: key })
    const body = `<Delete>${keys.map(key => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`
    const isOne = keys.length === 1
    return {
      send: isOne ? send('DELETE', `/private/${keys[0]}`) : send('POST', '/private?delete=', { body }),
      seen: at => Promise.all(keys.map(key => textOf(at, key))),
      done: keys.map(() => null),
    }
  }

/** With an extra bucket. */
const bucket =
  (method: 'PUT' | 'DELETE') =>
  async ({ wire }: S3At): Promise<S3Command> => {
    const name = `extra-${randomBytes(4).toString('hex')}`
    if (method === 'DELETE') await wire.send('PUT', `/${name}`)
    return {
      send: send(method, `/${name}`),
      seen: async ({ wire }) => (await wire.send('HEAD', `/${name}`)).status,
      done: method === 'PUT' ? 200 : 404,
    }
  }

/** By the names of their operations; a second word distinguishes variants of one. */
export const s3Commands: Record<string, (at: S3At) => Promise<S3Command>> = {
  'PutObject small': putting('small'),
  'PutObject large': putting('large'),
  'PutObject new': putting('large', { 'if-none-match': '*' }),
  'PutObject replacing': putting('large', { 'if-match': '*' }),
  'PostObject small': posting('small'),
  'PostObject large': posting('large'),
  async CopyObject(at) {
    await at.wire.send('PUT', '/private/source', { body: bodies.large })
    const etag = hex(bodies.large)
    const copy = send('PUT', '/private/copy', { headers: source })
    return { send: copy, seen: at => textOf(at, 'copy'), done: bodies.large, etag }
  },
  DeleteObject: deleting('one'),
  DeleteObjects: deleting('one', 'two'),
  PutObjectTagging: tagging('PUT'),
  DeleteObjectTagging: tagging('DELETE'),
  CreateMultipartUpload: async () => ({
    send: send('POST', '/private/opened?uploads='),
    seen: async ({ wire }) => (await wire.send('GET', '/private?uploads=&prefix=opened')).text.includes('<Upload>'),
    done: true,
  }),
  UploadPart: sendingPart(bodies.large),
  'UploadPartCopy whole': sendingPart(bodies.large, source),
  'UploadPartCopy range': sendingPart(bodies.large.slice(0, 20_000), {
    ...source,
    'x-amz-copy-source-range': 'bytes=0-19999',
  }),
  CompleteMultipartUpload: ending('complete'),
  AbortMultipartUpload: ending('abort'),
  CreateBucket: bucket('PUT'),
  DeleteBucket: bucket('DELETE'),
}

/** The same as changes by names of the API, on its own gateway. */
export const s3Changes: Record<string, Change> = Object.fromEntries(
  Object.entries(s3Commands).map(([name, prepare]) => [
    `s3.${name}`,
    async (api: TestApi, ana: TestUser) => {
      const at = await s3At(api.blobAs(ana), api.s3Url)
      const { send } = await prepare(at)
      return async () => {
        const { status, text } = await send(at)
        const body = { code: elementOf({ text }, 'Code'), message: elementOf({ text }, 'Message') }
        return { status, text, body, headers: new Headers() }
      }
    },
  ]),
)

/** The ETag in an answer, without its quotes. */
export function etagIn(answer: Pick<WireAnswer, 'headers' | 'text'>): string | undefined {
  const quoted = answer.headers.etag ?? elementOf(answer, 'ETag')
  return quoted?.replaceAll('&quot;', '').replaceAll('"', '')
}
