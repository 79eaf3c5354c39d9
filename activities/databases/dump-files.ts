import { createHash, type Hash } from 'node:crypto'
import * as fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { pause } from '../../lib/async/loop.ts'
import { MiB } from '../../lib/bytes.ts'
import { nameBytes, nameText, untrustedFileFlags } from '../../lib/folders/disk-names.ts'
import { Tree } from '../../lib/folders/tree.ts'
import { DumpCorrupt, type EngineJob, type HeardDump } from './contents.ts'

/** Checksums of all other files, in the format of sha256sum(1), whose presence makes a dump complete. */
const sumsFile = 'SHA256SUMS'
const fileMode = 0o600
const chunkBytes = MiB
const lookAgainMs = 20

/** Writes a dump into an empty folder: it is complete once `write` has resolved, or called `finish`. The signal ends what takes long. */
export async function writeDump<T>(
  job: Pick<EngineJob, 'folder' | 'heard'>,
  signal: AbortSignal | undefined,
  write: (writer: DumpWriter) => Promise<T>,
): Promise<T> {
  const writer = new DumpWriter(job, signal)
  try {
    const outcome = await write(writer)
    await writer.finish()
    return outcome
  } finally {
    writer.close()
  }
}

/** Reads a dump by `read`. Rejects with DumpCorrupt unless every file is as it was written. */
export async function readDump<T>(
  folder: string,
  signal: AbortSignal | undefined,
  read: (reader: DumpReader) => T | Promise<T>,
): Promise<T> {
  const reader = await DumpReader.open(folder, signal)
  try {
    return await read(reader)
  } finally {
    reader.close()
  }
}

/** Writes the files of a dump into an empty folder, for its owner. Names that exist are refused, links too. Paths are relative. */
export class DumpWriter {
  readonly #tree: Tree
  readonly #sums = new Map<string, string>()
  readonly #heard: HeardDump | undefined
  readonly #signal: AbortSignal | undefined
  #isOpen = true

  constructor({ folder, heard }: Pick<EngineJob, 'folder' | 'heard'>, signal?: AbortSignal) {
    this.#tree = new Tree(folder)
    this.#heard = heard
    this.#signal = signal
  }

  /** Resolves to the outcome of `fill`, once the file has all that it added. */
  async write<T>(path: string, fill: (file: DumpFile) => T | Promise<T>): Promise<T> {
    const file = new DumpFile(this.#create(path))
    try {
      this.#heard?.begins(nameBytes(path), false)
      const outcome = await fill(file)
      this.#sums.set(path, file.end())
      this.#heard?.ends(nameBytes(path))
      return outcome
    } finally {
      file.close()
    }
  }

  /** Makes a file part of the dump that `append` writes, from its start to its end, in bytes that would not shrink. */
  async append<T>(path: string, append: () => Promise<T>): Promise<T> {
    fs.closeSync(this.#create(path))
    this.#heard?.begins(nameBytes(path), true)
    const end = new AbortController()
    const sum = sumOf(this.#tree, path, this.#signal, end.signal)
    sum.catch(ignoreError('reported when it is awaited'))
    const outcome = await append().finally(() => end.abort())
    this.#heard?.ends(nameBytes(path))
    this.#sums.set(path, await sum)
    return outcome
  }

  /** All files are written: the folder is left alone from here on. Happened already is success. */
  async finish(): Promise<void> {
    if (!this.#isOpen) return
    const lines = [...this.#sums].map(([path, sum]) => `${sum}  ${path}\n`)
    await this.write(sumsFile, file => file.add(lines.join('')))
    this.close()
    await this.#heard?.complete()
  }

  close(): void {
    if (this.#isOpen) this.#tree.close()
    this.#isOpen = false
  }

  /** Resolves to the descriptor of a new file of the folder's owner. */
  #create(path: string): number {
    const fd = this.#tree.createFile(nameBytes(path), fileMode)
    const { uid, gid } = this.#tree.root
    if (process.getuid?.() === 0) fs.fchownSync(fd, uid, gid)
    return fd
  }
}

/** One file of a dump while it is written. */
export class DumpFile {
  readonly #fd: number
  readonly #hash: Hash = createHash('sha256')
  readonly #piece = Buffer.allocUnsafe(chunkBytes)
  #length = 0
  #closed = false

  constructor(fd: number) {
    this.#fd = fd
  }

  /** Text is written in UTF-8. Throws once the file is closed: work that was given up may come late, when its number is that of another file. */
  add(content: string | Uint8Array): void {
    if (this.#closed) throw new Error('The file of the dump is closed.')
    const bytes = typeof content === 'string' ? Buffer.from(content) : content
    for (let at = 0; at < bytes.length; ) {
      if (this.#length === chunkBytes) this.#flush()
      const part = bytes.subarray(at, at + chunkBytes - this.#length)
      this.#piece.set(part, this.#length)
      this.#length += part.length
      at += part.length
    }
  }

  /** SHA-256 in hex of everything. */
  end(): string {
    this.#flush()
    return this.#hash.digest('hex')
  }

  close(): void {
    this.#closed = true
    fs.closeSync(this.#fd)
  }

  #flush(): void {
    const bytes = this.#piece.subarray(0, this.#length)
    this.#hash.update(bytes)
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(this.#fd, bytes, at)
    this.#length = 0
  }
}

/** Of a file that grows, `whole` aborts once it has everything. */
async function* piecesOf(
  tree: Tree,
  path: string,
  signal?: AbortSignal,
  whole: AbortSignal = AbortSignal.abort(),
): AsyncGenerator<Buffer> {
  const fd = fs.openSync(tree.at(nameBytes(path)), untrustedFileFlags)
  try {
    for (;;) {
      signal?.throwIfAborted()
      const piece = Buffer.allocUnsafe(chunkBytes)
      const isWhole = whole.aborted
      const read = fs.readSync(fd, piece)
      if (read > 0) yield piece.subarray(0, read)
      else if (isWhole) return
      // Others come in between.
      await (isWhole || read === chunkBytes ? setImmediate() : pause(lookAgainMs, whole))
    }
  } finally {
    fs.closeSync(fd)
  }
}

/** SHA-256 in hex. */
async function sumOf(...file: Parameters<typeof piecesOf>): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of piecesOf(...file)) hash.update(piece)
  return hash.digest('hex')
}

/** Reads the files of a dump. `close` it. */
export class DumpReader {
  readonly #tree: Tree
  /** Relative paths of all files. */
  readonly paths: string[] = []
  readonly #signal: AbortSignal | undefined

  private constructor(folder: string, signal?: AbortSignal) {
    this.#tree = new Tree(folder)
    this.#signal = signal
  }

  /** Rejects with DumpCorrupt unless every file is as it was written. The signal ends this, and the pieces of files. */
  static async open(folder: string, signal?: AbortSignal): Promise<DumpReader> {
    const reader = new DumpReader(folder, signal)
    try {
      await reader.#check()
      return reader
    } catch (error) {
      reader.close()
      throw error
    }
  }

  text(path: string): string {
    return this.#tree.read(nameBytes(path))!
  }

  /** Pieces of a file, of at most 1 MB. */
  pieces(path: string): AsyncGenerator<Buffer> {
    return piecesOf(this.#tree, path, this.#signal)
  }

  close(): void {
    this.#tree.close()
  }

  async #check(): Promise<void> {
    const sums = this.#file(sumsFile) ? this.#tree.read(sumsFile)! : ''
    if (!sums.endsWith('\n')) throw new DumpCorrupt('The dump is incomplete: its checksums are missing.')
    for (const line of sums.slice(0, -1).split('\n')) {
      const [, sum, path] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? []
      if (!sum || !path) throw new DumpCorrupt('The checksums of the dump are damaged.')
      if (!this.#file(path)) throw new DumpCorrupt(`The dump is incomplete: ${path} is missing.`)
      if ((await sumOf(this.#tree, path, this.#signal)) !== sum)
        throw new DumpCorrupt(`${path} in the dump is damaged.`)
      this.paths.push(path)
    }
    const expected = new Set([sumsFile, ...this.paths])
    for (const path of this.#all('')) if (!expected.has(path)) throw new DumpCorrupt(`${path} is no part of the dump.`)
  }

  #file(path: string): boolean {
    return this.#tree.stat(nameBytes(path))?.isFile() ?? false
  }

  *#all(folder: string): Generator<string> {
    for (const name of this.#tree.list(folder)) {
      const path = folder === '' ? name : `${folder}/${name}`
      if (this.#tree.stat(path)?.isDirectory()) yield* this.#all(path)
      else yield nameText(path)
    }
  }
}
