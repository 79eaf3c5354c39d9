import { createHash, hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import * as yauzl from 'yauzl'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { Digest } from '../../policy/packages/documents.ts'
import { piecesOf } from './pieces.ts'

/** Says what a file contains, from its bytes in their order and then the whole file. */
interface ContentHash {
  update(piece: Uint8Array): void
  /** Lower-case hex. Rejects for a file of which there is no such digest. */
  hex(file: FileHandle, bytes: number): Promise<string>
}

/** A hash of the kind that digests of registries have. */
export function contentHash(algorithm: Digest['algorithm']): ContentHash {
  if (algorithm === 'h1-zip') return { update() {}, hex: hashOfZip }
  const content = createHash(algorithm === 'h1-mod' ? 'sha256' : algorithm)
  return {
    update: piece => void content.update(piece),
    hex: async () =>
      algorithm === 'h1-mod' ? hashOfFiles([['go.mod', content.digest('hex')]]) : content.digest('hex'),
  }
}

/** `h1` of Go: a hash of the list of all files, each with its SHA-256. */
function hashOfFiles(files: [name: string, sha256: string][]): string {
  const sorted = files.sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return hash('sha256', sorted.map(([name, sha256]) => `${sha256}  ${name}\n`).join(''))
}

async function hashOfZip(file: FileHandle, bytes: number): Promise<string> {
  const { outputBytes, files: maxFiles } = packageCacheRules.zip
  const zip = await yauzl.fromRandomAccessReaderPromise(new FileReader(file), bytes, { autoClose: false })
  if (zip.entryCount > maxFiles) throw new Error(`An archive has over ${maxFiles} files.`)
  const files: [string, string][] = []
  let unpacked = 0
  for await (const entry of zip.eachEntry()) {
    const content = createHash('sha256')
    for await (const piece of await zip.openReadStreamPromise(entry)) {
      unpacked += piece.length
      if (unpacked > outputBytes) throw new Error(`An archive unpacks to over ${outputBytes} bytes.`)
      content.update(piece)
    }
    files.push([entry.fileName, content.digest('hex')])
  }
  return hashOfFiles(files)
}

class FileReader extends yauzl.RandomAccessReader {
  readonly #file: FileHandle

  constructor(file: FileHandle) {
    super()
    this.#file = file
  }

  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(piecesOf(this.#file, start, end), { objectMode: false })
  }
}

/** The size of a file, and whether it has the digest that is expected; null when its content is not what its name says. */
export async function verified(
  file: FileHandle,
  name: string,
  expected: Digest | null,
  signal: AbortSignal,
): Promise<{ bytes: number; isExpected: boolean } | null> {
  const content = createHash('sha256')
  const other = expected && contentHash(expected.algorithm)
  let bytes = 0
  for await (const piece of piecesOf(file)) {
    signal.throwIfAborted()
    bytes += piece.length
    content.update(piece)
    other?.update(piece)
  }
  if (!name.endsWith(content.digest('hex'))) return null
  return { bytes, isExpected: !other || (await other.hex(file, bytes)) === expected?.hex }
}
