import { createHash, hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import * as yauzl from 'yauzl'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import type { Digest } from '../../policy/packages/documents.ts'
import { piecesOf } from './pieces.ts'

/** A hash of a file's contents, from its bytes in their order and then the whole file. */
interface ContentHash {
  update(piece: Uint8Array): void
  /** Lower-case hex. Rejects for a file of which there is no such digest, and with the reason of the signal. */
  hex(file: FileHandle, bytes: number, signal: AbortSignal): Promise<string>
}

/** A hash of the kind that digests of registries have. */
export function contentHash(algorithm: Digest['algorithm']): ContentHash {
  if (algorithm === 'h1-zip') return { update() {}, hex: hashOfZip }
  const content = createHash(algorithm === 'h1-mod' ? 'sha256' : algorithm)
  return {
    update: piece => void content.update(piece),
    hex: async () =>
      algorithm === 'h1-mod' ? hashOfFiles([[Buffer.from('go.mod'), content.digest('hex')]]) : content.digest('hex'),
  }
}

/** `h1` of Go: a hash of the list of all files, each with its SHA-256. */
function hashOfFiles(files: [name: Buffer, sha256: string][]): string {
  const sorted = files.sort(([a], [b]) => Buffer.compare(a, b))
  const lines = sorted.flatMap(([name, sha256]) => [Buffer.from(`${sha256}  `), name, Buffer.from('\n')])
  return hash('sha256', Buffer.concat(lines))
}

async function hashOfZip(file: FileHandle, bytes: number, signal: AbortSignal): Promise<string> {
  const { outputBytes, files: maxFiles } = packageCacheRules.zip
  // Names as they are: Go does not decode them.
  const options = { autoClose: false, decodeStrings: false }
  const zip = await yauzl.fromRandomAccessReaderPromise(new FileReader(file), bytes, options)
  if (zip.entryCount > maxFiles) throw new Error(`An archive has over ${maxFiles} files.`)
  const files: [Buffer, string][] = []
  let unpacked = 0
  for await (const entry of zip.eachEntry()) {
    signal.throwIfAborted()
    // As in Go: a name could otherwise stand for further lines of the list.
    if (entry.fileNameRaw.includes('\n')) throw new Error('The name of a file in an archive has a line feed.')
    const content = createHash('sha256')
    for await (const piece of await zip.openReadStreamPromise(entry)) {
      signal.throwIfAborted()
      unpacked += piece.length
      if (unpacked > outputBytes) throw new Error(`An archive unpacks to over ${outputBytes} bytes.`)
      content.update(piece)
    }
    files.push([entry.fileNameRaw, content.digest('hex')])
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

/** The hash of a whole file as lower-case hex. Rejects as `ContentHash`. */
export async function hashOfFile(
  { file, bytes }: { file: FileHandle; bytes: number },
  algorithm: Digest['algorithm'],
  signal: AbortSignal,
): Promise<string> {
  const content = contentHash(algorithm)
  for await (const piece of piecesOf(file)) {
    signal.throwIfAborted()
    content.update(piece)
  }
  return content.hex(file, bytes, signal)
}

/** The size of a file, and whether it has the digest that is expected; null when its content does not match its name. */
export async function verified(
  file: FileHandle,
  name: string,
  expected: Digest | null,
  signal: AbortSignal,
): Promise<{ bytes: number; isExpected: boolean } | null> {
  const content = createHash('sha256')
  const other = expected && expected.algorithm !== 'sha256' ? contentHash(expected.algorithm) : null
  let bytes = 0
  for await (const piece of piecesOf(file)) {
    signal.throwIfAborted()
    bytes += piece.length
    content.update(piece)
    other?.update(piece)
  }
  const sha256 = content.digest('hex')
  if (!name.endsWith(sha256)) return null
  const actual = other ? await other.hex(file, bytes, signal) : sha256
  return { bytes, isExpected: !expected || actual === expected.hex }
}
