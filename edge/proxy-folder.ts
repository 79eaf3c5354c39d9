import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, chown, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, unlessMissing } from '../lib/folders/error-codes.ts'
import type { Owner } from '../lib/folders/owner.ts'
import type { EdgeSettings } from '../policy/edge/edge-settings.ts'
import { tableFile, tables } from './edge-config.ts'
import { errorsName, logName } from './log-format.ts'
import { unusedCertificate } from './tls-lines.ts'

/**
 * Makes the proxy's folder with all that nginx needs in it. `owner` is the user of its workers where root starts them, else null. These
 * parse what strangers send, so nothing that root opens by its path is in a folder of theirs: they have `access`, `tables`, and what nginx
 * makes in `cache` and `temporary`.
 */
export async function makeProxyFolder(folder: string, settings: EdgeSettings, owner: Owner | null): Promise<void> {
  const { routesFile } = settings
  if (owner && dirname(routesFile) === folder)
    throw new Error(
      `EDGE_ROUTES_FILE must be in a folder of its own, and ${folder} is root's: ${routesFile}. Leave it out, or move the file there with the tables next to it.`,
    )
  const own = join(folder, 'tables')
  await makeFolder(folder, owner)
  // An earlier version left all of it to that user, who may have prepared links for root.
  if (dirname(routesFile) === own) await moveTables(folder, own)
  if (owner) await removeStrange(folder, isOpened)
  for (const name of ['cache', 'temporary']) {
    await makeFolder(join(folder, name), owner)
    if (owner) await removeStrange(join(folder, name), () => true)
  }
  for (const path of [join(folder, 'access'), own, dirname(routesFile)]) {
    const created = await mkdir(path, { recursive: true, mode: 0o750 })
    // An existing folder that an operator chose keeps its owner.
    if (owner && (created || dirname(path) === folder)) await chown(path, owner.uid, owner.gid)
  }
  for (const path of [routesFile, ...tables.map(name => tableFile(settings, name))]) await makeTable(path, owner)
}

/** Writes a file that only root may read, in place of what is there. */
export async function placeFile(path: string, text: string): Promise<void> {
  const next = `${path}.new`
  await rm(next, { recursive: true, force: true }) // of a start that was killed
  await writeFile(next, text, { flag: 'wx', mode: 0o600 })
  await rename(next, path)
}

/** The id of the proxy, made once: what it has acknowledged belongs to it, whatever it is called. */
export async function proxyId(folder: string): Promise<string> {
  const path = join(folder, 'id')
  const present = await readFile(path, 'utf8').catch(unlessMissing)
  if (present !== null && /^[0-9a-f]{32}$/.test(present)) return present
  const id = randomBytes(16).toString('hex')
  await placeFile(path, id)
  return id
}

/** A folder of root's that the group of `owner` may read. */
async function makeFolder(path: string, owner: Owner | null): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o750 })
  if (!owner) return
  await chown(path, 0, owner.gid)
  await chmod(path, 0o750)
}

const tableNames = ['routes', ...tables].map(table => `${table}.json`)

async function moveTables(from: string, to: string): Promise<void> {
  for (const name of tableNames) {
    const old = await lstat(join(from, name)).catch(() => null)
    if (!old?.isFile() || old.nlink > 1) continue
    await mkdir(to, { recursive: true, mode: 0o750 })
    await rename(join(from, name), join(to, name))
  }
}

/** What the proxy of this version or an earlier one opens in its folder by its path. */
const opened = ['nginx.conf', 'nginx.pid', 'id', unusedCertificate, logName, errorsName, ...tableNames]
const isOpened = (name: string): boolean => opened.includes(name.replace(/\.new$/, ''))

/**
 * Removes what root has not made: links, which lead where their maker wants, and under names that the proxy opens also other files and second
 * names of a file, which share its owner. Files of an operator stay.
 */
async function removeStrange(folder: string, isOurs: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const stats = await lstat(path)
    const isStrange = !stats.isDirectory() && (stats.uid !== 0 || stats.nlink > 1)
    if (isStrange && (stats.isSymbolicLink() || isOurs(name))) await rm(path)
  }
}

/** Opened once: between two looks at its path the owner of the folder could put another file there. Private keys are in one of them. */
async function makeTable(path: string, owner: Owner | null): Promise<void> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600).catch(error => {
    throw codeOf(error) === 'ELOOP' || codeOf(error) === 'ENXIO' ? noTable(path) : error
  })
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.nlink !== 1) throw noTable(path)
    // First root's: without all of its powers it changes the mode of no other file.
    if (owner) await file.chown(0, 0)
    await file.chmod(0o600)
    if (owner) await file.chown(owner.uid, owner.gid)
  } finally {
    await file.close()
  }
}

const noTable = (path: string) =>
  new Error(`${path} is no plain file with one name, so it is not the proxy's. Remove it.`)
