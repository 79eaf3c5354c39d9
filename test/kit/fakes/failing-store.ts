import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'

/** A real store in its own folder, which fails on request and lists every file that it holds, incomplete ones included. */
export class FailingStore implements ObjectStore {
  /** Nothing can be put. */
  failing = false
  /** Nothing answers. */
  away = false

  private constructor(
    private readonly inner: ObjectStore,
    private readonly folder: string,
  ) {}

  static async open(): Promise<FailingStore> {
    const folder = await mkdtemp(join(tmpdir(), 'berth-store-'))
    return new FailingStore(await filesystemStore(folder), folder)
  }

  put: ObjectStore['put'] = async (...args) => {
    if (this.failing) throw new Error('the store is out')
    return this.#inner().put(...args)
  }
  get: ObjectStore['get'] = async (...args) => this.#inner().get(...args)
  lend: ObjectStore['lend'] = async (...args) => this.#inner().lend(...args)
  read: ObjectStore['read'] = async (...args) => this.#inner().read(...args)
  head: ObjectStore['head'] = async id => this.#inner().head(id)
  delete: ObjectStore['delete'] = async id => this.#inner().delete(id)
  open: ObjectStore['open'] = async id => this.#inner().open(id)

  #inner(): ObjectStore {
    if (this.away) throw new Error('the store is away')
    return this.inner
  }

  /** The location of a path of the store, for tests that damage it. */
  pathOf(path: string): string {
    return join(this.folder, path)
  }

  async files(): Promise<number> {
    const found = await readdir(this.folder, { recursive: true, withFileTypes: true })
    return found.filter(entry => entry.isFile()).length
  }

  close(): Promise<void> {
    return rm(this.folder, { recursive: true, force: true })
  }
}
