import { chown, lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { Owner } from '../../lib/folders/owner.ts'
import { inMb } from '../../policy/archives/git-tree.ts'
import { rawAttributes } from './config.ts'
import { FetchRefused } from './port.ts'

const prefix = 'berth-git-'
const watchMs = 100

/** Creates a folder for one fetch's repository, with this configuration, readable by its owner only. */
export async function makeRepository(scratch: string, config: string, owner: Owner | null): Promise<string> {
  await mkdir(scratch, { recursive: true, mode: 0o711 })
  const folder = await mkdtemp(join(scratch, `${prefix}${process.pid}-`))
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

/** Removes the repositories of fetches whose process was killed. */
export async function removeAbandoned(scratch: string): Promise<void> {
  for (const name of await readdir(scratch).catch(() => [])) {
    const pid = Number(new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1])
    if (pid && !isAlive(pid))
      await removeRepository(join(scratch, name)).catch(ignoreError('the next start tries again'))
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

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
