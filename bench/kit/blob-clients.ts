import { Agent, request } from 'node:http'
import { finished } from 'node:stream/promises'
import autocannon from 'autocannon'

/** One connection that stays. */
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** A server that takes and gives files, ours or the bare one. */
export interface FileServer {
  uploadUrl: string
  headers: Record<string, string>
  /** The body of an upload of a file of this many bytes. */
  body(bytes: number): Buffer
  /** Where what an upload answered can be downloaded. */
  urlOf(answer: string): string
}

/** Sends and forgets; the answer as text. Throws an Error for a status that is not 2xx. */
export async function send(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: Buffer,
): Promise<string> {
  const outgoing = request(url, { method, agent, headers: { ...headers, 'Content-Length': body.length } })
  outgoing.end(body)
  return answerOf(outgoing, chunks => Buffer.concat(chunks).toString())
}

/** Downloads and throws away. */
export async function drain(url: string, headers: Record<string, string> = {}): Promise<number> {
  return answerOf(request(url, { agent, headers }).end(), chunks =>
    chunks.reduce((sum, chunk) => sum + chunk.length, 0),
  )
}

function answerOf<T>(outgoing: ReturnType<typeof request>, read: (chunks: Buffer[]) => T): Promise<T> {
  return new Promise((resolve, reject) => {
    outgoing.on('error', reject).on('response', async response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      await finished(response).catch(reject)
      if (response.statusCode !== undefined && response.statusCode < 300) resolve(read(chunks))
      else reject(new Error(`${response.statusCode} ${Buffer.concat(chunks)}`))
    })
  })
}

/** Uploads of one size per second, at 16 connections. */
export async function uploadsPerSecond(server: FileServer, bytes: number, seconds: number): Promise<number> {
  const { uploadUrl: url, headers } = server
  const result = await autocannon({
    url,
    method: 'POST',
    headers,
    body: server.body(bytes),
    connections: 16,
    duration: seconds,
  })
  return perSecond(result)
}

/** Downloads of a few hundred files per second, at 16 connections. */
export async function downloadsPerSecond(urls: readonly string[], seconds: number): Promise<number> {
  const { origin } = new URL(urls[0]!)
  const requests = urls.map(url => ({ path: new URL(url).pathname }))
  return perSecond(await autocannon({ url: origin, requests, connections: 16, duration: seconds }))
}

function perSecond({ non2xx, errors, requests }: autocannon.Result): number {
  if (non2xx > 0 || errors > 0) throw new Error(`${non2xx} answers were not 2xx, ${errors} failed`)
  return requests.average
}
