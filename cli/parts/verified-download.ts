import { createHash } from 'node:crypto'
import { createWriteStream, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

/**
 * Brings a file whose SHA-256 (hex) is known, within 10 minutes. Rejects, and leaves nothing, when something else came: what is
 * downloaded runs beside root.
 */
export async function download({ url, sha256 }: { url: string; sha256: string }, path: string): Promise<void> {
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
