import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { PutOptions, StoredBody } from './port.ts'
import { receive } from './receive.ts'

export type Spooled = StoredBody & { file: FileHandle }

/**
 * Brings a body to a temporary file without a name, so that nothing stays when this process dies. The caller closes the file.
 * Rejects as `ObjectStore.put` does.
 */
export function spool(folder: string, body: Readable, options: PutOptions = {}): Promise<Spooled> {
  return receive(nameless(folder), body, options)
}

async function nameless(folder: string): Promise<FileHandle> {
  const path = join(folder, `berth-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  return file
}
