import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
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
  stop(): Promise<void>
}

/** A platform of its own in a folder that is thrown away, with limits out of the way. */
export async function startPlatform(settings: Record<string, string> = {}): Promise<BenchPlatform> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-bench-'))
  const env = { ...process.env, BERTH_DATA: join(folder, 'data'), RATE_LIMIT_SCALE: '10000', ...settings }
  const options = { env, maxBuffer: 16 * MiB }
  await run(berth, ['up', '--detach'], options)
  const { stdout } = await run(berth, ['info', '--json'], options)
  return {
    info: JSON.parse(stdout),
    async stop() {
      await run(berth, ['down', '--apps'], options)
      await rm(folder, { recursive: true, force: true })
    },
  }
}
