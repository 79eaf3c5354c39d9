import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import type { StoredBody } from '../../activities/objects/port.ts'
import { KiB } from '../../lib/bytes.ts'

/** Up to this size an object's bytes are stored in its row: one commit stores both, and no disk is synced for the bytes alone. */
export const smallBytes = 16 * KiB

/** A small body, whole. Undefined for a larger one, which can still be read from its first byte. */
export async function smallBody(body: Readable): Promise<Buffer | undefined> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body.iterator({ destroyOnReturn: false })) {
    pieces.push(piece)
    size += piece.length
    if (size <= smallBytes) continue
    body.unshift(Buffer.concat(pieces))
    return undefined
  }
  return Buffer.concat(pieces)
}

/** The facts that a store would report about a body. */
export function factsOf(bytes: Buffer): StoredBody {
  const hex = (algorithm: 'md5' | 'sha256') => createHash(algorithm).update(bytes).digest('hex')
  return { size: bytes.length, md5: hex('md5'), sha256: hex('sha256'), crc32: crc32(bytes) }
}
