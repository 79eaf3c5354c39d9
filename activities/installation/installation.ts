import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Db } from '../../db/database.ts'
import { bindStore, claimInstallation, hasHadApplications, readInstallation } from '../../db/installation.ts'
import { installationMark } from '../../policy/ids.ts'
import { assertStoreBelongs, commonInstallation } from '../../policy/installation/installation.ts'
import type { ObjectStore } from '../objects/port.ts'

const markName = 'installation.json'

/** The id in a folder's mark, or null. Throws when the mark cannot be read, because it must not count as missing. */
export async function folderMark(folder: string): Promise<string | null> {
  const text = await readFile(join(folder, markName), 'utf8').catch(error => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  return text === null ? null : (JSON.parse(text) as { id: string }).id
}

/** Writes a folder's mark atomically. */
async function markFolder(folder: string, id: string): Promise<void> {
  const path = join(folder, markName)
  const draft = `${path}.${randomUUID()}.new`
  await mkdir(folder, { recursive: true, mode: 0o711 })
  await writeFile(draft, `${JSON.stringify({ id })}\n`, { mode: 0o644, flush: true })
  await rename(draft, path)
}

/**
 * Checks that a data folder (or that of one host in it) and the database belong together, and marks those without an id.
 * Resolves to the id; throws `WrongInstallation`. `database` is its name for the message.
 */
export async function confirmFolder(db: Db, folder: string, database: string): Promise<string> {
  const folderId = await folderMark(folder) // read first: the database is always marked before the folder
  const row = await readInstallation(db)
  const commonId = commonInstallation({
    folder,
    database,
    folderId,
    databaseId: row?.id ?? null,
    folderHasApplications: folderId === null && (await holdsApplications(folder)),
    databaseKnowsApplications: folderId === null && (await hasHadApplications(db)),
  })
  const id = commonId ?? (await claimInstallation(db, randomUUID())).id
  if (folderId === null) await markFolder(folder, id).catch(unlessUnwritable)
  return id
}

/** A process that sees only parts of a folder, and may not write there, leaves the mark to the folder's owner. */
function unlessUnwritable(error: NodeJS.ErrnoException): void {
  // Creating a folder on a read-only file system may fail with ENOENT.
  if (!['EROFS', 'EACCES', 'EPERM', 'ENOENT'].includes(error.code ?? '')) throw error
}

/** Volumes are in `images` or `folders` of a host's folder, named by application; hosts' folders are in `hosts` of the data folder. */
async function holdsApplications(folder: string): Promise<boolean> {
  const names = (path: string) => readdir(join(folder, path)).catch(() => [] as string[])
  for (const host of ['.', ...(await names('hosts')).map(name => `hosts/${name}`)])
    for (const kind of ['images', 'folders'])
      if ((await names(`${host}/${kind}`)).some(name => /^[0-9a-f]{24}(\.ext4)?$/.test(name))) return true
  return false
}

/** The id in an object store's mark, or null. */
export async function storeMark(store: ObjectStore): Promise<string | null> {
  const head = await store.head(installationMark)
  if (!head) return null
  return (JSON.parse((await store.read(installationMark, 0, head.size)).toString()) as { id: string }).id
}

/** Writes an object store's mark, replacing another one. */
async function markStore(store: ObjectStore, id: string): Promise<void> {
  await store.put(installationMark, Readable.from([Buffer.from(JSON.stringify({ id }))], { objectMode: false }))
}

/** Checks that the object store belongs to the installation; marks an unmarked store when it is used first. Throws `WrongInstallation`. */
export async function confirmStore(db: Db, store: ObjectStore): Promise<void> {
  const row = await readInstallation(db)
  const storeId = await storeMark(store)
  if (row?.store && storeId === row.id) return
  await bindStore(db, async ({ id, store: given }) => {
    const now = await storeMark(store)
    assertStoreBelongs({ storeId: now, given }, id)
    if (now === null) await markStore(store, id)
  })
}

/**
 * Marks a data folder, the folders of hosts in it and the object store as the database's, whatever they belonged to, for a deliberate
 * move. A database without an id takes the folder's. Resolves to the id.
 */
export async function adoptParts(db: Db, dataDir: string, store: ObjectStore): Promise<string> {
  const { id } = await claimInstallation(db, (await folderMark(dataDir)) ?? randomUUID())
  await markFolder(dataDir, id)
  for (const host of await readdir(join(dataDir, 'hosts')).catch(() => [])) {
    const folder = join(dataDir, 'hosts', host)
    for (const marked of [folder, join(folder, 'hosts', host)])
      if ((await folderMark(marked)) !== null) await markFolder(marked, id)
  }
  await bindStore(db, () => markStore(store, id))
  return id
}
