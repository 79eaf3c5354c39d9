import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { installRules, isFresh } from '../../policy/hosts/installs.ts'
import {
  exists,
  type Installed,
  type Prepared,
  readPrepared,
  releaseFolders,
  writePrepared,
} from '../releases/files.ts'
import type { Snapshots } from '../snapshots/port.ts'
import { enterReading } from './slots.ts'

/** An earlier release of the same application that has a result in its own folder. */
export interface Earlier {
  release: number
  installed: Installed
}

/** Why a result is not used again: it is damaged, or a build without the cache was started since. */
type Forgotten = 'damaged' | 'forsaken'

/** The record of what a release uses, which it or another one has installed; null without one. */
export async function recordOf(
  volume: string,
  release: number,
): Promise<{ release: number; prepared: Prepared | null }> {
  const own = await readPrepared(releaseFolders(volume, release))
  const lender = own?.dependenciesOf ?? release
  return { release: lender, prepared: lender === release ? own : await readPrepared(releaseFolders(volume, lender)) }
}

/** The result that a release uses, its own or that of an earlier one; null when there is none that could be used again. */
export async function resultOf(volume: string, release: number): Promise<Earlier | Forgotten | null> {
  const { release: lender, prepared } = await recordOf(volume, release)
  if (prepared?.isDamaged) return 'damaged'
  if (prepared?.isForsaken) return 'forsaken'
  return prepared?.installed ? { release: lender, installed: prepared.installed } : null
}

/** Releases before this one whose result has the key and is not too old, newest first. */
export async function earlierWith(volume: string, before: number, key: string): Promise<Earlier[]> {
  const names = await readdir(join(volume, 'releases'))
  const numbers = names.map(Number).filter(number => number < before)
  const results: Earlier[] = []
  for (const release of numbers.sort((a, b) => b - a)) {
    const folders = releaseFolders(volume, release)
    const installed = (await readPrepared(folders))?.installed
    if (installed?.key !== key || !isFresh(Date.parse(installed.at), installed.isPinned, Date.now())) continue
    if (await exists(folders.dependencies)) results.push({ release, installed })
  }
  return results
}

/** From now on the result of this release is not used by others. */
export async function forgetResult(volume: string, release: number, why: Forgotten): Promise<void> {
  const folders = releaseFolders(volume, release)
  const { installed: _, ...prepared } = (await readPrepared(folders))!
  await writePrepared(folders, { ...prepared, ...(why === 'damaged' ? { isDamaged: true } : { isForsaken: true }) })
}

/** Digest and size of an installed folder, by a child in one of the account's slots. Rejects when it cannot be made in time. */
export async function installDigestOf(
  snapshots: Pick<Snapshots, 'digest'>,
  folder: string,
  account: string,
  signal: AbortSignal,
): Promise<{ digest: string; bytes: number }> {
  const leave = await enterReading(account, signal)
  try {
    return await snapshots.digest(folder, deadlineSignal(installRules.digestSeconds * 1000, signal))
  } finally {
    leave()
  }
}
