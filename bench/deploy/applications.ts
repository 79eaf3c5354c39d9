import { randomBytes } from 'node:crypto'
import { untilAnswers } from '../kit/answer.ts'
import type { BenchPlatform } from '../kit/platform.ts'
import { zipOf } from '../kit/zip.ts'

type Files = Record<string, string>

/** A text that no other program of this run answers. */
export const newText = (): string => `hello ${randomBytes(6).toString('hex')}`

export const program = (text: string): string =>
  `require('node:http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)\n`

/** An application of the bench, under a name of its own. */
export interface BenchApp {
  id: string
  /** Of its account. */
  key: string
  host: string
}

/** Applications of a platform, as their owner handles them. Times are in ms, from the request until the right text is answered. */
export class BenchApps {
  readonly #platform: BenchPlatform

  constructor(platform: BenchPlatform) {
    this.#platform = platform
  }

  /** `answered` is the time until the request was answered. By default the account is the platform's first. */
  async deploy(
    files: Files,
    text: string,
    key = this.#platform.info.api_key,
  ): Promise<BenchApp & { took: number; answered: number }> {
    const subdomain = `bench-${randomBytes(5).toString('hex')}`
    const config = `DISPLAY_NAME=bench\nMAIN=index.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=${subdomain}\n`
    const host = `${subdomain}.${this.#platform.info.apps_domain}`
    const all = { 'berth.app': config, 'index.js': program(text), ...files }
    const { body, ...times } = await this.#timed('/v2/apps', all, { host, key }, text)
    return { id: (body as { id: string }).id, host, key, ...times }
  }

  /** The application serves its earlier version until the new text is answered, which is requested every `everyMs`. */
  async commit(app: BenchApp, files: Files, text: string, everyMs?: number): Promise<number> {
    const all = { 'index.js': program(text), ...files }
    return (await this.#timed(`/v2/apps/${app.id}/commit`, all, app, text, everyMs)).took
  }

  /** Until the request is answered. */
  async restart({ id, key }: BenchApp): Promise<number> {
    const startedAt = performance.now()
    await this.#platform.json('POST', `/v2/apps/${id}/restart`, { key })
    return performance.now() - startedAt
  }

  async remove({ id, key }: BenchApp): Promise<void> {
    await this.#platform.json('DELETE', `/v2/apps/${id}`, { key })
  }

  async #timed(
    path: string,
    files: Files,
    { host, key }: Pick<BenchApp, 'host' | 'key'>,
    text: string,
    everyMs?: number,
  ) {
    const edge = new URL(this.#platform.info.edge_url)
    const body = await formOf(files)
    const startedAt = performance.now()
    const response = await this.#platform.json<unknown>('POST', path, { key, body })
    const answered = performance.now() - startedAt
    const { hostname: address, port } = edge
    await untilAnswers({ address, port: Number(port), host, text, timeoutMs: 300_000, everyMs })
    return { took: performance.now() - startedAt, answered, body: response }
  }
}

async function formOf(files: Files): Promise<FormData> {
  const form = new FormData()
  form.append('file', new Blob([await zipOf(files)]), 'app.zip')
  return form
}
