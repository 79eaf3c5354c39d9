import { randomBytes } from 'node:crypto'
import { untilAnswers } from './answer.ts'
import type { BenchPlatform } from './platform.ts'
import { zipOf } from './zip.ts'

/** A small application: what is uploaded, where it answers, and with which text. */
export interface Hello {
  subdomain: string
  text: string
  archive: Buffer<ArrayBuffer>
}

/** `bytes` are added as a file that does not compress; an application without an address needs half of the memory. */
export async function helloApp({ bytes = 0, hasAddress = true } = {}): Promise<Hello> {
  const name = randomBytes(5).toString('hex')
  const subdomain = `bench-${name}`
  const text = `hello ${name}`
  const archive = await zipOf({
    'berth.app': `DISPLAY_NAME=bench\nMAIN=index.js\nVERSION=recommended\n${hasAddress ? `MEMORY=512\nSUBDOMAIN=${subdomain}` : 'MEMORY=256'}\n`,
    'index.js': `require('node:http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)\n`,
    ...(bytes > 0 && { 'data.bin': randomBytes(bytes) }),
  })
  return { subdomain, text, archive }
}

export function archiveForm(archive: Buffer<ArrayBuffer>): FormData {
  const form = new FormData()
  form.append('file', new Blob([archive]), 'app.zip')
  return form
}

/** Resolves once the application answers over the proxy. */
export async function answers({ info }: BenchPlatform, app: Hello, timeoutMs = 60_000, everyMs = 100): Promise<void> {
  const edge = new URL(info.edge_url)
  const host = `${app.subdomain}.${info.apps_domain}`
  await untilAnswers({ address: edge.hostname, port: Number(edge.port), host, text: app.text, timeoutMs, everyMs })
}
