import { createHash, createHmac } from 'node:crypto'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { TestApi, TestUser } from '../actors/api.ts'
import { s3Of } from './sdk.ts'

// A signer of its own, written from the description of Signature Version 4: it says on the wire what no SDK would say.

export interface WirePair {
  accessKeyId: string
  secretAccessKey: string
}

export interface WireAnswer {
  status: number
  headers: IncomingHttpHeaders
  bytes: Buffer
  text: string
  /** The content of the first element `<Code>`; undefined when there is none. */
  code: string | undefined
}

export interface WireInit {
  headers?: Record<string, string>
  body?: string | Buffer
  /** `x-amz-content-sha256`; default: the hash of the body. */
  payload?: string
  /** What is sent of the body; default: all of it. */
  sent?: Buffer
}

/** How a body is sent in the frames of `aws-chunked`. */
export interface Frames {
  signed: boolean
  /** Bytes of a chunk; default: the whole body. */
  size?: number
  trailer?: { name: string; value: string }
}

const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
const region = 'auto'

/** Encodes one segment of a path, or a value of a query. */
export const uriEncoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, sign => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

/** The path of an object, of which nothing is folded. */
export const objectPath = (bucket: string, key: string): string =>
  `/${bucket}/${key.split('/').map(uriEncoded).join('/')}`

/** Someone with an S3 pair who speaks plain HTTP. Targets are encoded already, as `objectPath` does. */
export class S3Wire {
  readonly #url: string
  readonly #pair: WirePair
  readonly #host: string

  constructor(url: string, pair: WirePair) {
    this.#url = url
    this.#pair = pair
    this.#host = new URL(url).host
  }

  /** A request and its answer. */
  async send(method: string, target: string, init: WireInit = {}): Promise<WireAnswer> {
    const { headers, body } = this.#signed(method, target, init)
    return this.raw(method, target, { ...headers, 'content-length': String(body.length) }, init.sent ?? body)
  }

  /** As `send`, with the body in frames. */
  async sendFramed(target: string, body: string | Buffer, frames: Frames, init: WireInit = {}): Promise<WireAnswer> {
    const { headers, framed } = this.framed(target, Buffer.from(body), frames, init)
    return this.raw('PUT', target, { ...headers, 'content-length': String(framed.length) }, framed)
  }

  /** The signed headers of a PUT, and its body in frames. */
  framed(target: string, body: Buffer, frames: Frames, { headers = {} }: WireInit = {}) {
    const { signed, trailer } = frames
    const kind = signed ? 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' : 'STREAMING-UNSIGNED-PAYLOAD'
    const payload = trailer || !signed ? `${kind}-TRAILER` : kind
    const own = {
      'content-encoding': 'aws-chunked',
      'x-amz-decoded-content-length': String(body.length),
      ...(trailer && { 'x-amz-trailer': trailer.name }),
      ...headers,
    }
    const request = this.#signed('PUT', target, { headers: own, payload })
    return { headers: request.headers, framed: this.#frames(body, frames, request) }
  }

  /** Opens a request, of which the caller sends the body. */
  open(method: string, target: string, init: WireInit & { length?: number } = {}): ClientRequest {
    const { headers, body } = this.#signed(method, target, init)
    const length = String(init.length ?? body.length)
    return this.openRaw(method, target, { ...headers, 'content-length': length })
  }

  /** An unsigned request, or one that is signed already. */
  async raw(
    method: string,
    target: string,
    headers: Record<string, string>,
    body: Buffer = Buffer.alloc(0),
  ): Promise<WireAnswer> {
    const sending = this.openRaw(method, target, headers)
    // Node would change the header Content-Disposition of a request that ends with its body.
    if (body.length > 0) sending.write(body)
    sending.end()
    return answerOf(sending)
  }

  /** An address that is valid without the pair. `method` counts. */
  presigned(method: string, target: string, seconds = 60): string {
    const { time, scope } = this.#now()
    const own = {
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': `${this.#pair.accessKeyId}/${scope}`,
      'X-Amz-Date': time,
      'X-Amz-Expires': String(seconds),
      'X-Amz-SignedHeaders': 'host',
    }
    const query = Object.entries(own).map(([name, value]) => `${name}=${uriEncoded(value)}`)
    const whole = `${target}${target.includes('?') ? '&' : '?'}${query.join('&')}`
    const signature = this.#signature(method, whole, { host: this.#host }, 'UNSIGNED-PAYLOAD', { time, scope })
    return `${whole}&X-Amz-Signature=${signature}`
  }

  /** As `open`, unsigned or signed already. */
  openRaw(method: string, target: string, headers: Record<string, string>): ClientRequest {
    const { hostname, port } = new URL(this.#url)
    return requestHttp({ hostname, port, method, path: target, headers, agent: false })
  }

  #now() {
    const time = new Date().toISOString().replace(/[-:]|\.\d{3}/g, '')
    return { time, scope: `${time.slice(0, 8)}/${region}/s3/aws4_request` }
  }

  #signed(method: string, target: string, { headers = {}, body: content = '', payload }: WireInit) {
    const body = Buffer.from(content)
    const { time, scope } = this.#now()
    const hash = payload ?? sha256(body)
    const all = { ...headers, host: this.#host, 'x-amz-date': time, 'x-amz-content-sha256': hash }
    const signature = this.#signature(method, target, all, hash, { time, scope })
    const signedHeaders = Object.keys(all).sort().join(';')
    const authorization = `AWS4-HMAC-SHA256 Credential=${this.#pair.accessKeyId}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`
    return { headers: { ...all, authorization }, body, time, scope, signature }
  }

  #signature(
    method: string,
    target: string,
    headers: Record<string, string>,
    payload: string,
    { time, scope }: { time: string; scope: string },
  ): string {
    const [path = '', query = ''] = target.split(/\?(.*)/s)
    const names = Object.keys(headers).sort()
    const parameters = query.split('&').filter(Boolean).map(canonicalParameter).sort()
    const lines = names.map(name => `${name}:${headers[name]!.trim().replace(/ +/g, ' ')}\n`)
    const canonical = [method, path, parameters.join('&'), lines.join(''), names.join(';'), payload].join('\n')
    return this.#sign(['AWS4-HMAC-SHA256', time, scope, sha256(Buffer.from(canonical, 'latin1'))].join('\n'), scope)
  }

  #sign(text: string, scope: string): string {
    const key = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${this.#pair.secretAccessKey}`)
    return hmac(key, text).toString('hex')
  }

  #frames(body: Buffer, { signed, size = body.length || 1, trailer }: Frames, request: Signed): Buffer {
    const { time, scope } = request
    let previous = request.signature
    const sign = (kind: string, lines: string[]) => {
      previous = this.#sign([`AWS4-HMAC-SHA256-${kind}`, time, scope, previous, ...lines].join('\n'), scope)
      return previous
    }
    const pieces: (string | Buffer)[] = []
    for (let at = 0; ; at += size) {
      const chunk = body.subarray(at, at + size)
      const own = signed ? `;chunk-signature=${sign('PAYLOAD', [sha256(''), sha256(chunk)])}` : ''
      pieces.push(`${chunk.length.toString(16)}${own}\r\n`)
      if (chunk.length === 0) break
      pieces.push(chunk, '\r\n')
    }
    if (trailer) pieces.push(`${trailer.name}:${trailer.value}\r\n`)
    if (trailer && signed)
      pieces.push(`x-amz-trailer-signature:${sign('TRAILER', [sha256(`${trailer.name}:${trailer.value}\n`)])}\r\n`)
    return Buffer.concat([...pieces, '\r\n'].map(piece => Buffer.from(piece)))
  }
}

function canonicalParameter(parameter: string): string {
  const [name = '', value = ''] = parameter.split(/=(.*)/s)
  return `${uriEncoded(decodeURIComponent(name))}=${uriEncoded(decodeURIComponent(value))}`
}

type Signed = Record<'time' | 'scope' | 'signature', string>

/** A user's key on the S3 wire. */
export async function wireOf(api: TestApi, user: TestUser, key?: string): Promise<S3Wire> {
  const { client, credentials } = await s3Of(api, user, key)
  client.destroy()
  return new S3Wire(api.s3Url, credentials)
}

/** The answer to a request that was sent. */
export async function answerOf(sending: ClientRequest): Promise<WireAnswer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    sending.once('response', resolve).once('error', reject)
  })
  const bytes = await buffer(response)
  const text = bytes.toString()
  const code = /<Code>([^<]*)<\/Code>/.exec(text)?.[1]
  return { status: response.statusCode ?? 0, headers: response.headers, bytes, text, code }
}

/** The text of the first element of a name; undefined when there is none. */
export const elementOf = ({ text }: Pick<WireAnswer, 'text'>, name: string): string | undefined =>
  new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
