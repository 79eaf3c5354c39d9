import { createHash } from 'node:crypto'
import { createWriteStream, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Dispatcher, fetch } from 'undici'
import { proxiedDispatcher } from '../../activities/packages/proxies.ts'
import type { Environment } from '../../lib/child-process.ts'
import { withoutEmpty } from '../../policy/environment.ts'
import { environmentProxies, unreadableProxy } from '../../policy/hosts/proxy-address.ts'
import type { Say } from '../terminal/terminal.ts'

interface Release {
  urls: readonly string[]
  /** In hex. */
  sha256: string
}

/**
 * Downloads a file with a known SHA-256 from the first address that has it, within 10 minutes each, through the proxy that the
 * environment names; says which variables name none that can be used. If no address has the file, it rejects with the last reason and
 * leaves nothing: the file will run on the same machine as root's programs.
 */
export async function download(
  { urls, sha256 }: Release,
  path: string,
  say: Say,
  env: Environment = process.env,
): Promise<void> {
  const { proxies, faults } = environmentProxies(withoutEmpty(env))
  // Without its text, which may contain a password.
  for (const setting of faults) say(`  ${setting} is not used for this download: it ${unreadableProxy}.`)
  const { dispatcher, destroy } = proxiedDispatcher(proxies)
  let reason: unknown = new Error('no address has it')
  try {
    for (const url of urls) {
      const failed = await downloadFrom(url, sha256, path, dispatcher).then(
        () => null,
        error => ({ error }),
      )
      if (!failed) return
      reason = failed.error
    }
  } finally {
    await destroy()
  }
  throw reason
}

async function downloadFrom(url: string, sha256: string, path: string, dispatcher: Dispatcher): Promise<void> {
  const response = await fetch(url, { dispatcher, signal: AbortSignal.timeout(600_000) })
  if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`)
  const hash = createHash('sha256')
  try {
    const body = Readable.fromWeb(response.body as never).on('data', chunk => hash.update(chunk))
    await pipeline(body, createWriteStream(path, { flags: 'wx' }))
    if (hash.digest('hex') !== sha256) throw new Error('the download is not the released program: its SHA-256 differs')
  } catch (error) {
    rmSync(path, { force: true })
    throw error
  }
}
