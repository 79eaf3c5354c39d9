import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { MiB } from '../../lib/bytes.ts'
import { installRules } from '../../policy/hosts/installs.ts'
import type { Archives } from './archives.ts'
import type { HeldTools } from './port.ts'
import type { Entry } from './shelf.ts'
import { enterReading } from './slots.ts'

// An archive of tools' folders is one file, which builds of its application make and unpack. Whatever a build has packed, the host reads
// its bytes and nothing else.

/**
 * Holds the archive once its bytes are those that were stored. A damaged one is removed. Rejects when it cannot be read in time, and with the
 * reason of the signal.
 */
export async function holdTools(
  archives: Archives,
  entry: Entry,
  key: string,
  signal: AbortSignal,
): Promise<HeldTools | 'other' | 'damaged' | null> {
  // Files of the future would count as newer than the sources: a clock was wrong.
  if (entry.key !== key || entry.at > Date.now()) return 'other'
  const held = await archives.hold(entry)
  if (!held) return null
  try {
    if ((await digestOfFile(held.path, entry, signal)) === entry.digest)
      return { path: held.path, at: entry.at, close: held.release }
  } catch (error) {
    await held.release()
    throw error
  }
  await held.release()
  await archives.drop(entry.account, entry.app!)
  return 'damaged'
}

async function digestOfFile(path: string, { account, bytes }: Entry, signal: AbortSignal): Promise<string | null> {
  const leave = await enterReading(account, signal)
  const deadline = deadlineSignal(installRules.digestSeconds * 1000, signal)
  const file = await open(path, 'r').catch(error => {
    leave()
    throw error
  })
  try {
    return (await file.stat()).size === bytes ? await eachPiece(file, bytes, deadline, async () => {}) : null
  } finally {
    await file.close()
    leave()
  }
}

/** Copies `bytes` bytes; resolves to their SHA-256 in hex, once they are on the disk. Rejects when there are fewer. */
export async function copyTools(
  from: FileHandle,
  into: FileHandle,
  bytes: number,
  signal: AbortSignal,
): Promise<string> {
  const digest = await eachPiece(from, bytes, signal, piece => into.writeFile(piece))
  if (digest === null) throw new Error('The cache of the tools ends early.')
  await into.sync()
  return digest
}

/** Resolves to the SHA-256 of the first bytes of a file in hex; null when it has fewer. */
async function eachPiece(
  file: FileHandle,
  bytes: number,
  signal: AbortSignal,
  use: (piece: Buffer) => Promise<void>,
): Promise<string | null> {
  const sha256 = createHash('sha256')
  const buffer = Buffer.allocUnsafe(MiB)
  for (let at = 0; at < bytes; ) {
    signal.throwIfAborted()
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at)
    if (bytesRead === 0) return null
    const piece = buffer.subarray(0, bytesRead)
    sha256.update(piece)
    await use(piece)
    at += bytesRead
  }
  return sha256.digest('hex')
}
