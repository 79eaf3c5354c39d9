import { createWriteStream, renameSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { Db } from '../../../db/database.ts'
import { type CopiedVolume, findWalSegment } from '../../../db/databases/point-in-time/copies.ts'
import { pause } from '../../../lib/async/loop.ts'
import { untrustedFileFlags } from '../../../lib/folders/disk-names.ts'
import { codeOf } from '../../../lib/folders/error-codes.ts'
import { Tree } from '../../../lib/folders/tree.ts'
import { pointInTimeRules, type WalFile, walFileName, walFileOf } from '../../../policy/databases/point-in-time.ts'
import type { ObjectStore } from '../../objects/port.ts'
import { recoveryNames } from './port.ts'

const pollMs = 20
/** The engine reads them as another user. */
const fileMode = 0o644

export interface RecoveryFilesOptions {
  db: Db
  store: Pick<ObjectStore, 'get'>
  /** The volume whose WAL files are brought. */
  source: CopiedVolume
  /** The folder that is `recoveryPlace` for the engine, which may change it. */
  folder: string
}

/** The files of a recovery: WAL files are brought a few at a time, as the engine requests them, and removed once they are used. `close` it. */
export class RecoveryFiles {
  readonly #options: RecoveryFilesOptions
  readonly #tree: Tree
  /** The WAL file that the engine requested last. */
  requested: WalFile | null = null
  /** The last that it requested and that does not exist. */
  missing: WalFile | null = null

  constructor(options: RecoveryFilesOptions) {
    this.#options = options
    this.#tree = new Tree(options.folder)
  }

  /** Writes the base backup for the engine to unpack. */
  async bringBackup(segmentId: string, signal: AbortSignal): Promise<void> {
    const body = await this.#options.store.get(segmentId, undefined, undefined, signal)
    await this.#write(recoveryNames.backup, [body], signal)
  }

  /** Brings what the engine requests until the signal aborts. Rejects when a file cannot be brought. */
  async serve(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await pause(pollMs, signal)) {
      const requested = await this.#readWanted()
      // What it requested last, and what follows, is there already, or marked as missing.
      if (!requested || (requested.number === this.requested?.number && requested.timeline === this.requested.timeline))
        continue
      this.requested = requested
      for (let ahead = 0; ahead <= pointInTimeRules.ahead && !signal.aborted; ahead++) {
        const file = { ...requested, number: requested.number + ahead }
        if (await this.#bring(file, signal)) continue
        if (ahead === 0) await this.#miss(file, signal)
        break
      }
      this.#removeUsed(requested)
    }
  }

  close(): void {
    this.#tree.close()
  }

  /** False when the store does not have it. */
  async #bring(file: WalFile, signal: AbortSignal): Promise<boolean> {
    const { db, store, source } = this.#options
    const path = `${recoveryNames.wal}/${walFileName(file)}`
    if (this.#tree.stat(path)) return true
    const segmentId = await findWalSegment(db, { ...source, ...file })
    if (!segmentId) return false
    const body = await store.get(segmentId, undefined, undefined, signal)
    await this.#write(path, [body, createGunzip()], signal)
    return true
  }

  async #miss(file: WalFile, signal: AbortSignal): Promise<void> {
    this.missing = file
    const path = `${recoveryNames.wal}/${walFileName(file)}${recoveryNames.missing}`
    if (!this.#tree.stat(path)) await this.#write(path, [Readable.from([])], signal)
  }

  /** The engine may read the one before again. */
  #removeUsed({ number }: WalFile): void {
    for (const name of this.#tree.list(recoveryNames.wal)) {
      const file = walFileOf(name)
      if (file && file.number < number - 1) this.#tree.remove(`${recoveryNames.wal}/${name}`)
    }
  }

  async #readWanted(): Promise<WalFile | null> {
    const path = `${recoveryNames.wal}/${recoveryNames.wanted}`
    let file: FileHandle
    try {
      file = await open(this.#tree.at(path), untrustedFileFlags)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return null
      throw error
    }
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(32), 0, 32, 0)
      return walFileOf(buffer.toString('latin1', 0, bytesRead))
    } finally {
      await file.close()
    }
  }

  /** Writes a file whose name appears when it is whole. */
  async #write(path: string, from: [Readable, ...NodeJS.ReadWriteStream[]], signal: AbortSignal): Promise<void> {
    const draft = `${path}.draft`
    this.#tree.remove(draft)
    const file = createWriteStream('', { fd: this.#tree.createFile(draft, fileMode) })
    await pipeline([...from, file], { signal })
    // Both are in one folder, which stays open.
    renameSync(this.#tree.at(draft), this.#tree.at(path))
  }
}
