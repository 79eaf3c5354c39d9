import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { MiB } from '../../lib/bytes.ts'

const berth = fileURLToPath(new URL('../../berth', import.meta.url))
const run = promisify(execFile)

export interface BenchPlatform {
  info: {
    base_url: string
    edge_url: string
    apps_domain: string
    api_key: string
    database_url: string
    data_dir: string
  }
  /** Creates an account; resolves to its key. */
  account(plan: string): Promise<string>
  /** One request to the management API; resolves to what it responds, throws when it refuses. */
  json<T>(method: string, path: string, options?: { key?: string; body?: FormData | string }): Promise<T>
  /** The id of one of the platform's processes, such as `api` or `host`. */
  processId(name: string): Promise<number>
  stop(): Promise<void>
}

/** A platform of its own in a folder that is thrown away, with limits out of the way. */
export async function startPlatform(settings: Record<string, string> = {}): Promise<BenchPlatform> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-bench-'))
  const own = { BERTH_DATA: join(folder, 'data'), RATE_LIMIT_SCALE: '10000', WARM_IMAGES: 'none' }
  const env = { ...process.env, ...own, ...settings }
  const options = { env, maxBuffer: 16 * MiB }
  const answer = async (...args: string[]) => JSON.parse((await run(berth, [...args, '--json'], options)).stdout)
  await run(berth, ['up', '--detach'], options)
  const info: BenchPlatform['info'] = await answer('info')
  let accounts = 0
  return {
    info,
    async account(plan) {
      const name = `bench${++accounts}`
      const created = await answer('users', 'create', '--email', `${name}@example.org`, '--name', name, '--plan', plan)
      return created.api_key
    },
    async json(method, path, { key = info.api_key, body } = {}) {
      const response = await fetch(info.base_url + path, { method, headers: { authorization: key }, body })
      const text = await response.text()
      if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
      return text === '' ? undefined : JSON.parse(text).response
    },
    async processId(name) {
      return JSON.parse(await readFile(join(folder, 'data/run', `${name}.json`), 'utf8')).pid
    },
    async stop() {
      await run(berth, ['down', '--apps'], options)
      await rm(folder, { recursive: true, force: true })
    },
  }
}
