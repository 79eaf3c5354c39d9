import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, rmdirSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { sharedState } from '../services/postgres-cluster.ts'
import { reachableByOthers } from '../services/reach.ts'
import { isRoot } from '../services/system-packages.ts'

/** The data folder of a command: `BERTH_DATA`, else `data` in the checkout, else root's folder for closed checkouts. */
export function dataFolder(berthData: string | undefined, checkout: string): string {
  if (berthData) return realPath(resolve(berthData))
  const local = join(checkout, 'data')
  if (existsSync(local) || !isRoot() || reachableByOthers(checkout)) return realPath(local)
  return sharedState
}

/**
 * Creates the folder so that others can traverse it: when Berth runs as root, Postgres, the proxy and unpacking run as other users and
 * must reach their parts of it. A folder that is closed to them becomes a link to one below root's folder. Returns the real path, and a
 * sentence for the summary when it differs from the requested one. Throws when a closed folder already holds data.
 */
export function makeDataFolder(wanted: string, checkout: string): { folder: string; note: string | null } {
  if (!isRoot() || reachableByOthers(dirname(wanted))) {
    mkdirSync(wanted, { recursive: true })
    chmodSync(wanted, 0o711)
    const moved = wanted === sharedState && !reachableByOthers(checkout)
    return {
      folder: wanted,
      note: moved ? `The checkout is closed to other users, so the data is in ${sharedState}.` : null,
    }
  }
  if (existsSync(wanted)) {
    if (readdirSync(wanted).length > 0)
      throw new Error(
        `Postgres and the proxy run as other users, which cannot enter ${dirname(wanted)}. Move ${wanted} elsewhere, or permit it (chmod o+x).`,
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
