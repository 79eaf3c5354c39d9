import { randomUUID } from 'node:crypto'
import { chown, type FileHandle, mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Archives, Inspection, UnpackOptions } from '../../activities/archives/port.ts'

export const owner = { uid: 10_001, gid: 10_001 }

export interface ArchiveBench {
  base: string
  /** A file without a name that holds this archive. */
  fileOf(zip: Buffer): Promise<FileHandle>
  inspect(zip: Buffer, archives: Archives, configNames?: string[], account?: string): Promise<Inspection>
  unpack(zip: Buffer, archives: Archives, options?: UnpackOptions): Promise<Unpacked>
  close(): Promise<void>
}

interface Unpacked {
  folder: string
  /** Null when it went well. */
  error: (Error & { code?: string }) | null
  /** Every path that lies in the folder now. */
  paths: string[]
  /** What lies around the folder, which must be the folder alone. */
  around: string[]
}

/** Sends archives through the real thing, each from a file without a name and into a folder of its own, owned by `owner`. */
export async function archiveBench(): Promise<ArchiveBench> {
  const base = await mkdtemp(join(tmpdir(), 'berth-archives-'))
  const fileOf = async (zip: Buffer) => {
    const path = join(base, randomUUID())
    await writeFile(path, zip)
    const file = await open(path)
    await rm(path)
    return file
  }
  return {
    base,
    fileOf,
    async inspect(zip, archives, configNames = [], account = randomUUID()) {
      const file = await fileOf(zip)
      return archives.inspect(file, { account, configNames, config: 'required' }).finally(() => file.close())
    },
    async unpack(zip, archives, options) {
      const around = join(base, randomUUID())
      const folder = join(around, 'into')
      await mkdir(folder, { recursive: true })
      await chown(folder, owner.uid, owner.gid)
      const file = await fileOf(zip)
      const error = await archives.unpack(file, folder, owner, options).then(
        () => null,
        (problem: Error) => problem,
      )
      await file.close()
      return {
        folder,
        error,
        paths: (await readdir(folder, { recursive: true })).sort(),
        around: await readdir(around),
      }
    },
    close: () => rm(base, { recursive: true, force: true }),
  }
}
