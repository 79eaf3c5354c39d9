import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, rmdirSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { sharedState } from '../services/postgres-cluster.ts'
import { reachableByOthers } from '../services/reach.ts'
import { isRoot } from '../services/system-packages.ts'

/** The data folder that a command means: `BERTH_DATA`, else `data` in the checkout, else root's place for closed checkouts. */
export function dataFolder(berthData: string | undefined, checkout: string): string {
  if (berthData) return realPath(resolve(berthData))
  const local = join(checkout, 'data')
  if (existsSync(local) || !isRoot() || reachableByOthers(checkout)) return realPath(local)
  return sharedState
}

/**
 * Makes the folder, open for walking through: as root, Postgres, the proxy and unpacking run as other users and must reach
 * their parts of it. A folder in a place that is closed to them becomes a link to one in root's place. Returns the real path
 * and a sentence for the summary when it is not what was asked for. Throws when a closed folder holds data already.
 */
export function makeDataFolder(wanted: string, checkout: string): { folder: string; note: string | null } {
  if (!isRoot() || reachableByOthers(dirname(wanted))) {
    mkdirSync(wanted, { recursive: true })
    chmodSync(wanted, 0o711)
    const moved = wanted === sharedState && !reachableByOthers(checkout)
    return {
      folder: wanted,
      note: moved ? `The checkout is closed to other users, so the data lies in ${sharedState}.` : null,
    }
  }
  if (existsSync(wanted)) {
    if (readdirSync(wanted).length > 0)
      throw new Error(
        `Other users cannot enter ${dirname(wanted)}, which Postgres and the proxy must: move ${wanted} elsewhere, or open the way (chmod o+x).`,
      )
    rmdirSync(wanted)
  }
  const folder = join(sharedState, `data-${randomBytes(4).toString('hex')}`)
  mkdirSync(folder, { recursive: true, mode: 0o711 })
  mkdirSync(dirname(wanted), { recursive: true })
  symlinkSync(folder, wanted)
  return { folder, note: `${dirname(wanted)} is closed to other users, so ${wanted} is a link to ${folder}.` }
}

function realPath(path: string): string {
  return existsSync(path) ? realpathSync(path) : path
}
