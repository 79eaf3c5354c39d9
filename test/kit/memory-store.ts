import { createHash } from 'node:crypto'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { BodyNotFound, BodyTooLarge, type ObjectStore } from '../../activities/object-store.ts'

/** Bodies in memory, for tests of what stands above the port. `failing` makes every put reject. */
export class MemoryStore implements ObjectStore {
  readonly bodies = new Map<string, Buffer>()
  failing = false

  async put(
    id: string,
    body: Readable,
    { maxBytes = Number.POSITIVE_INFINITY, signal }: Parameters<ObjectStore['put']>[2] = {},
  ) {
    const chunks: Buffer[] = []
    let size = 0
    signal?.addEventListener('abort', () => body.destroy(new Error('aborted')))
    for await (const chunk of body) {
      if (this.failing) throw new Error('the store is out')
      size += chunk.length
      if (size > maxBytes) throw new BodyTooLarge()
      chunks.push(chunk)
    }
    signal?.throwIfAborted()
    const bytes = Buffer.concat(chunks)
    this.bodies.set(id, bytes)
    const hash = (name: string) => createHash(name).update(bytes).digest('hex')
    return { size, md5: hash('md5'), sha256: hash('sha256') }
  }

  async get(id: string, from = 0, to?: number) {
    return Readable.from([this.#find(id).subarray(from, to === undefined ? undefined : to + 1)])
  }

  async head(id: string) {
    const body = this.bodies.get(id)
    return body ? { size: body.length } : null
  }

  async delete(id: string) {
    this.bodies.delete(id)
  }

  async open(id: string) {
    const folder = await mkdtemp(join(tmpdir(), 'berth-store-'))
    const path = join(folder, 'body')
    await writeFile(path, this.#find(id))
    const handle = await open(path, 'r')
    await rm(folder, { recursive: true })
    return handle
  }

  #find(id: string): Buffer {
    const body = this.bodies.get(id)
    if (!body) throw new BodyNotFound(id)
    return body
  }
}
