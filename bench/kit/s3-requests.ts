import { createHash, createHmac } from 'node:crypto'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'

/** A bucket, and the pair that opens it. */
export interface Bucket {
  /** Of the server, without a path. */
  url: string
  name: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

export interface Sent {
  query?: Record<string, string>
  body?: Buffer | string
  /** Drops the body of the answer, of which only its length is returned. */
  drop?: boolean
}

export interface Answer {
  headers: IncomingHttpHeaders
  length: number
  text: string
}

/** A server that sends nothing for so long is given up. */
const timeoutMs = 120_000

/**
 * Requests to a bucket as every client of S3 sends them: path style, Signature Version 4 in a header, bodies unsigned as over https.
 * Connections stay open. The same bytes go to every server, but for the address, the date and the signature.
 */
export class S3Requests {
  readonly #bucket: Bucket
  readonly #agent: Agent
  readonly #host: string
  readonly #port: string

  constructor(bucket: Bucket, connections: number) {
    const { hostname, port } = new URL(bucket.url)
    this.#bucket = bucket
    this.#host = hostname
    this.#port = port
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections })
  }

  /** Throws an Error for a status that is not 2xx. The key needs no escaping: letters, digits, `-`, `.` and `/`. */
  send(method: string, key: string, { query = {}, body = '', drop = false }: Sent = {}): Promise<Answer> {
    const path = `/${this.#bucket.name}${key === '' ? '' : `/${key}`}`
    const search = Object.keys(query)
      .sort()
      .map(name => `${encodeURIComponent(name)}=${encodeURIComponent(query[name]!)}`)
      .join('&')
    const target = search === '' ? path : `${path}?${search}`
    const outgoing = request({
      agent: this.#agent,
      host: this.#host,
      port: this.#port,
      method,
      path: target,
      headers: this.#headers(method, path, search, body),
      timeout: timeoutMs,
    })
    return new Promise((resolve, reject) => {
      outgoing.on('error', reject)
      outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)))
      outgoing.on('response', response => {
        const status = response.statusCode ?? 0
        const chunks: Buffer[] = []
        let length = 0
        response.on('data', (chunk: Buffer) => {
          length += chunk.length
          if (!drop || status >= 300) chunks.push(chunk)
        })
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          if (status >= 200 && status < 300) resolve({ headers: response.headers, length, text })
          else reject(new Error(`${method} ${target} answered ${status} ${codeOf(text)}`))
        })
      })
      outgoing.end(body)
    })
  }

  close(): void {
    this.#agent.destroy()
  }

  #headers(method: string, path: string, search: string, body: Buffer | string): Record<string, string | number> {
    const host = `${this.#host}:${this.#port}`
    const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    const payload = 'UNSIGNED-PAYLOAD'
    const names = 'host;x-amz-content-sha256;x-amz-date'
    const canonical = `${method}\n${path}\n${search}\nhost:${host}\nx-amz-content-sha256:${payload}\nx-amz-date:${time}\n\n${names}\n${payload}`
    const scope = `${time.slice(0, 8)}/${this.#bucket.region}/s3/aws4_request`
    const hash = createHash('sha256').update(canonical).digest('hex')
    const signature = createHmac('sha256', this.#signingKey(scope))
      .update(`AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash}`)
      .digest('hex')
    return {
      Host: host,
      'X-Amz-Content-Sha256': payload,
      'X-Amz-Date': time,
      Authorization: `AWS4-HMAC-SHA256 Credential=${this.#bucket.accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
      ...(method === 'GET' ? {} : { 'Content-Length': Buffer.byteLength(body) }),
      // Some servers demand it for a list of keys to delete; clients send it for nothing else.
      ...(search === 'delete=' ? { 'Content-MD5': createHash('md5').update(body).digest('base64') } : {}),
    }
  }

  #key: { scope: string; key: Buffer } | undefined

  /** Of one day, as clients keep it. */
  #signingKey(scope: string): Buffer {
    if (this.#key?.scope !== scope) {
      const start = Buffer.from(`AWS4${this.#bucket.secretAccessKey}`)
      const hmac = (key: Buffer, part: string) => createHmac('sha256', key).update(part).digest()
      this.#key = { scope, key: scope.split('/').reduce(hmac, start) }
    }
    return this.#key.key
  }
}

/** What an XML error says, short enough for a line. */
function codeOf(text: string): string {
  const [, code = text.slice(0, 200)] = /<Code>(.*?)<\/Code>/.exec(text) ?? []
  const [, message = ''] = /<Message>(.*?)<\/Message>/.exec(text) ?? []
  return `${code} ${message}`.trim()
}
