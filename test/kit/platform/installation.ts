import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { archiveFolder } from '../../../cli/client/archive-folder.ts'
import type { Target } from '../../../cli/client/client.ts'
import { isAlive, readRecord } from '../../../workers/supervisor/process-record.ts'
import { berth, checkout, type Ran } from '../command.ts'
import { clearHost } from '../hosts/host-remains.ts'

export type Info = Record<string, string>

/** The names that `berth ps` shows when all is well. */
export const processNames = ['analytics', 'api', 'host', 'postgres', 'proxy', 'temporal', 'worker']

/** Call it once at the top level of a test file: a platform in its own folder, controlled with `./berth` and removed after the file. */
export function testInstallation(settings: Record<string, string> = {}, { above = tmpdir() } = {}) {
  const folder = mkdtempSync(join(above, 'berth-e2e-'))
  chmodSync(folder, 0o711) // Postgres and the proxy run as other users
  const dataDir = join(folder, 'data')
  const env = { BERTH_DATA: dataDir, RATE_LIMIT_SCALE: '1000', WARM_IMAGES: 'none', ...settings }
  const run = (...args: string[]): Promise<Ran> => berth(args, env, 600)
  const json = async <T>(...args: string[]): Promise<T> => JSON.parse((await run(...args, '--json')).stdout) as T
  const info = () => json<Info>('info')
  const record = (name: string) => readRecord(join(dataDir, 'run'), name)

  // Serial: the services that it uses are removed after it.
  test.serial.after.always('take the platform away', async t => {
    const ended = await run('down', '--apps')
    t.is(ended.code, 0, ended.stderr)
    for (const hostId of await readdir(join(dataDir, 'hosts')).catch(() => [])) await clearHost(dataDir, hostId)
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  })

  return {
    folder,
    dataDir,
    env,
    run,
    json,
    info,
    processes: () => json<{ name: string; pid: number }[]>('ps'),
    /** Kills a process with SIGKILL, unless it has just ended; returns its pid. */
    kill(name: string): number {
      const known = record(name)
      if (!known) throw new Error(`there is no record of ${name}`)
      if (isAlive(known)) process.kill(known.pid, 'SIGKILL')
      return known.pid
    },
    /** Resolves to the milliseconds until a killed process lives again. */
    async backAgain(name: string, killed: number): Promise<number> {
      const since = Date.now()
      while (Date.now() - since < 20_000) {
        const now = record(name)
        if (now && now.pid !== killed && isAlive(now)) return Date.now() - since
        await sleep(20)
      }
      throw new Error(`${name} was not started again`)
    },
    /** A copy of an example with other lines in its configuration, as a folder. */
    copyExample(example: string, changes: Record<string, string>): string {
      const copy = mkdtempSync(join(folder, `${example}-`))
      cpSync(join(checkout, 'examples', example), copy, { recursive: true })
      const path = join(copy, 'berth.app')
      const added = Object.entries(changes).map(([key, value]) => `${key}=${value}\n`)
      writeFileSync(path, readFileSync(path, 'utf8') + added.join('')) // the last line of a key wins
      return copy
    },
    async zipExample(example: string, subdomain: string): Promise<string> {
      const zip = join(folder, `${subdomain}.zip`)
      await archiveFolder(this.copyExample(example, { SUBDOMAIN: subdomain }), zip)
      return zip
    },
  }
}

export const targetOf = (known: Info): Target => ({
  baseUrl: known.base_url as string,
  apiKey: known.api_key as string,
  edgeUrl: known.edge_url as string,
})

/** A bare call of the API. */
export function call(target: Target, method: string, path: string): Promise<Response> {
  return fetch(new URL(path, target.baseUrl), { method, headers: { authorization: target.apiKey } })
}

/** One GET through the proxy: status and text. */
export function page(known: Info, domain: string): Promise<string> {
  const url = new URL(known.edge_url as string)
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: url.hostname, port: url.port, headers: { host: domain }, timeout: 10_000 },
      answer => {
        let text = ''
        answer.setEncoding('utf8').on('data', part => {
          text += part
        })
        answer.once('end', () => resolve(`${answer.statusCode} ${text}`))
      },
    )
    asked.once('error', reject)
    asked.end()
  })
}

/** The page once the proxy gives it, or what came last. */
export async function answering(known: Info, domain: string, seconds: number): Promise<string> {
  for (const deadline = Date.now() + seconds * 1000; ; await sleep(20)) {
    const text = await page(known, domain).catch(String)
    if (text.startsWith('200') || Date.now() > deadline) return text
  }
}
