import { readFileSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { buffer } from 'node:stream/consumers'
import type { S3Access } from './gateway.ts'

export interface PlainAnswer {
  status: number
  headers: NodeJS.Dict<string | string[]>
  body: Buffer
}

interface PlainRequest {
  method?: string
  headers?: Record<string, string>
  body?: Uint8Array
}

/** Sends a request without credentials, to a presigned address. Rejects after 30 s. */
export function plainRequest(
  url: string,
  { caFile }: Pick<S3Access, 'caFile'>,
  { method = 'GET', headers = {}, body }: PlainRequest = {},
): Promise<PlainAnswer> {
  const options = { method, headers, agent: false as const, signal: AbortSignal.timeout(30_000) }
  return new Promise((resolve, reject) => {
    const sent = caFile ? requestHttps(url, { ...options, ca: readFileSync(caFile) }) : requestHttp(url, options)
    sent.once('error', reject)
    sent.once('response', response => {
      const { statusCode = 0, headers: received } = response
      buffer(response).then(bytes => resolve({ status: statusCode, headers: received, body: bytes }), reject)
    })
    sent.end(body)
  })
}

/** Sends a form as browsers do, its file last. */
export async function sendForm(
  { url, fields }: { url: string; fields: Record<string, string> },
  file: { name: string; bytes: Uint8Array<ArrayBuffer>; type?: string },
  access: Pick<S3Access, 'caFile'>,
): Promise<PlainAnswer> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', new Blob([file.bytes], { type: file.type ?? 'application/octet-stream' }), file.name)
  const encoded = new Response(form)
  const body = Buffer.from(await encoded.arrayBuffer())
  const headers = { 'content-type': encoded.headers.get('content-type')!, 'content-length': String(body.length) }
  return plainRequest(url, access, { method: 'POST', headers, body })
}
