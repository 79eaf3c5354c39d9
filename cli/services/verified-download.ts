import { createHash } from 'node:crypto'
import { createWriteStream, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

interface Known {
  urls: readonly string[]
  /** In hex. */
  sha256: string
}

/**
 * Brings a file that is known by its SHA-256 from the first place that has it, within 10 minutes each. Rejects with the last reason,
 * and leaves nothing, when none has: what is downloaded runs beside root.
 */
export async function download({ urls, sha256 }: Known, path: string): Promise<void> {
  let reason: unknown = new Error('nobody has it')
  for (const url of urls) {
    const failed = await bring(url, sha256, path).then(
      () => null,
      error => ({ error }),
    )
    if (!failed) return
    reason = failed.error
  }
  throw reason
}

async function bring(url: string, sha256: string, path: string): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(600_000) })
  if (!response.ok || !response.body) throw new Error(`it answered ${response.status}`)
  const hash = createHash('sha256')
  try {
    const body = Readable.fromWeb(response.body as never).on('data', piece => hash.update(piece))
    await pipeline(body, createWriteStream(path, { flags: 'wx' }))
    if (hash.digest('hex') !== sha256) throw new Error('what came is not what was released: its SHA-256 differs')
  } catch (error) {
    rmSync(path, { force: true })
    throw error
  }
}
