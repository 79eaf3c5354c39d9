import { chown, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { startTicks } from '../../lib/process-stat.ts'
import { inMb } from '../../policy/archives/git-tree.ts'
import { rawAttributes } from './config.ts'
import { FetchRefused } from './port.ts'

const prefix = 'berth-git-'
const named = /^berth-git-(\d+)-(?:(\d+)-)?/
/** Ids of processes repeat, in containers with each start; with its start time an id does not. */
const ownTicks = startTicks(process.pid)
const ownPrefix = `${prefix}${process.pid}-${ownTicks === null ? '' : `${ownTicks}-`}`
const watchMs = 100

/** Creates a folder for one fetch's repository, with this configuration, readable by its owner only. */
export async function makeRepository(scratch: string, config: string, owner: Owner | null): Promise<string> {
  await mkdir(scratch, { recursive: true, mode: 0o711 })
  const folder = await mkdtemp(join(scratch, ownPrefix))
  return fill(folder, config, owner).catch(async error => {
    await removeRepository(folder)
    throw error
  })
}

async function fill(folder: string, config: string, owner: Owner | null): Promise<string> {
  const folders = ['objects', 'objects/pack', 'refs', 'refs/heads', 'info', 'tree']
  for (const name of folders) await mkdir(join(folder, name))
  const files = { HEAD: 'ref: refs/heads/none\n', config, 'info/attributes': rawAttributes }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  // The application's user writes objects; the configuration stays ours.
  if (owner) for (const name of ['', ...folders]) await chown(join(folder, name), owner.uid, owner.gid)
  return folder
}

export async function removeRepository(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes the repositories of fetches whose process has ended. */
export async function removeAbandoned(scratch: string): Promise<void> {
  for (const name of await readdir(scratch).catch(() => [])) {
    const [, pid, started] = named.exec(name) ?? []
    if (pid !== undefined && hasEnded(Number(pid), started))
      await removeRepository(join(scratch, name)).catch(ignoreError('the next start tries again'))
  }
}

/** By the id alone where no start time is known: in names of older versions, and on systems without /proc. */
function hasEnded(pid: number, started: string | undefined): boolean {
  if (started !== undefined && ownTicks !== null) return started !== startTicks(pid)
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EPERM'
  }
}

/** Calls back when more than `maxBytes` were downloaded. Returns a function that stops watching. */
export function watchSize(repository: string, maxBytes: number, onTooLarge: (error: FetchRefused) => void): () => void {
  const check = async () => {
    if ((await packedBytes(join(repository, 'objects/pack'))) <= maxBytes) return
    onTooLarge(new FetchRefused('REPOSITORY_TOO_LARGE', `The commit's download is over ${inMb(maxBytes)}.`))
  }
  const timer = setInterval(
    () => void check().catch(ignoreError('the folder appears later, and the next look comes')),
    watchMs,
  )
  return () => clearInterval(timer)
}

async function packedBytes(folder: string): Promise<number> {
  const sizes = await Promise.all(
    (await readdir(folder)).map(name =>
      lstat(join(folder, name)).then(
        ({ size }) => size,
        () => 0, // renamed meanwhile
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
