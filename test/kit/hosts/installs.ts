import { chmod, chown, mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { buildNetwork } from '../../../activities/containers/spec.ts'
import type { FetchRequest } from '../../../activities/git/port.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { openInstallCache } from '../../../activities/installs/cache.ts'
import { installPrepared } from '../../../activities/installs/isolated.ts'
import { bringRelease } from '../../../activities/releases/bringing.ts'
import { type Prepared, readPrepared, releaseFolders } from '../../../activities/releases/files.ts'
import { releasePlacement } from '../../../activities/releases/placement-request.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { loadApp } from '../../../db/apps/apps.ts'
import type { Db } from '../../../db/database.ts'
import { transaction } from '../../../db/database.ts'
import { readLog } from '../../../db/deploys/deployments.ts'
import { queueDeploy } from '../../../db/deploys/deploys.ts'
import { MiB } from '../../../lib/bytes.ts'
import type { Owner } from '../../../lib/folders/owner.ts'
import { rows } from '../rows/rows.ts'
import { testDatabase } from '../servers/database.ts'
import { realDocker } from '../servers/docker.ts'

export type Files = Record<string, string>

/** A package that npm never asks a registry for: it is for another system. */
const elsewhere = {
  version: '1.0.0',
  optional: true,
  os: ['aix'],
  resolved: 'https://registry.test/x.tgz',
  integrity: 'sha512-x',
}

/** The files of an application whose packages npm installs without a network. `version` changes the lock file. */
export const npmFiles = (version = '1.0.0'): Files => ({
  'index.js': '',
  'package.json': '{"optionalDependencies":{"elsewhere":"^1.0.0"}}',
  'package-lock.json': JSON.stringify({
    lockfileVersion: 3,
    packages: {
      '': { optionalDependencies: { elsewhere: '^1.0.0' } },
      'node_modules/elsewhere': { ...elsewhere, version },
    },
  }),
})

interface PushTerms {
  /** Without the cache. */
  clean?: boolean
  /** What the container runs instead of the planned step, as if its packages did that. */
  install?: string
  /** The step instead of the planned one; the tools' folders of the language are still unpacked before it and packed after it. */
  build?: string
}

/** What a part of a host rejects with where the process is killed; the step is then repeated. */
export const killed = new Error('The host is killed.')

/** A host that brings pushes to applications, on plain folders. `engine` runs install steps. */
/** Its archives of install results lie in `installs` of its folder. */
async function installingHost(t: ExecutionContext, db: Db, hostId: string, engine: AppHostOptions['engine']) {
  const root = await mkdtemp(join(tmpdir(), 'berth-installs-'))
  await chmod(root, 0o755)
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const volumes = { ...folderVolumes(join(root, 'volumes')), flush: async () => {} }
  const warnings: string[] = []
  const warn = (_: object, message: string) => void warnings.push(message)
  const installs = await openInstallCache({
    root: join(root, 'installs'),
    maxBytes: 512 * MiB,
    snapshots: snapshots(),
    warn,
  })
  t.teardown(() => installs.close())
  let pushed: Files = {}
  let instead: string | undefined
  const running: AppHostOptions['engine'] = {
    ...engine,
    runToEnd: (spec, ...rest) => engine.runToEnd(instead ? { ...spec, command: ['sh', '-c', instead] } : spec, ...rest),
  }
  const host = {
    db,
    engine: running,
    volumes,
    traits: { id: hostId, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
    sharedUid: process.getuid!() === 0 ? null : process.getuid!(),
    snapshots: snapshots(),
    git: { fetch: ({ folder, owner }: Pick<FetchRequest, 'folder' | 'owner'>) => lay(folder, pushed, owner) },
    gitLimits: {},
    store: { open: async () => ({ close: async () => {} }) },
    archives: { unpack: (_: unknown, folder: string, owner: Owner | null) => lay(folder, pushed, owner) },
    credentials: async () => null,
    locks: appLocks(),
    installs,
    warn,
  } as unknown as AppHostOptions

  async function app(ownerId?: string) {
    const owner = ownerId ?? (await rows(db).user()).id
    await rows(db).host(hostId, { memoryMb: 65_536 }) // seen now, and with room for all applications of a test file
    const { app } = await rows(db).app(owner)
    await db('apps').where({ id: app.id }).update({ host_id: hostId })
    await volumes.ensure(app.id, 100, app.uid)
    const volume = volumes.path(app.id)

    /** Prepares a push and installs what it needs; it serves then. */
    async function push(
      files: Files,
      changes: Partial<Release> = {},
      { clean = false, install, build }: PushTerms = {},
    ) {
      pushed = files
      instead = install
      const deploy = {
        appId: app.id,
        ownerId: owner,
        actor: owner,
        trigger: 'webhook',
        revision: 'a'.repeat(40),
      } as const
      const queued = await transaction(db, trx =>
        queueDeploy(trx, {
          ...deploy,
          cloneUrl: 'https://x.test/a.git',
          branch: 'main',
          ...(clean && { noCache: true }),
        }),
      )
      const row = await db('deployments').where({ id: queued!.deploymentId }).first()
      const release = {
        ...{
          appId: app.id,
          ownerId: owner,
          hostId,
          number: row.release,
          uid: app.uid,
          ramMb: 256,
          reservedMb: 256,
          cpus: 1,
          path: '',
        },
        ...{ language: 'javascript', runtimeVersion: '22', main: 'index.js', deploymentId: row.id },
        source: { kind: 'git', cloneUrl: 'https://x.test/a.git', branch: 'main', commit: 'a'.repeat(40) },
        ...changes,
      } as Release
      const folders = releaseFolders(volume, release.number)
      const signal = AbortSignal.timeout(100_000)
      const prepared = await bringRelease(host, release, folders, releasePlacement(host).ownerOf(release), signal)
      const attempt = async () => {
        const { install: planned, ...plan } = (await readPrepared(folders))!
        if (planned) await installPrepared(host, release, folders, { ...plan, install: build ?? planned }, signal)
      }
      await attempt().catch(error => {
        if (error !== killed) throw error
        return attempt()
      })
      await db('apps').where({ id: app.id }).update({ release: release.number })
      await db('operations').where({ target_id: app.id }).update({ state: 'success' })
      const words: string = (await db('deployments').where({ id: row.id }).first()).dependencies
      return { release, folders, installs: prepared.install !== null, words, log: await readLog(db, row.id) }
    }

    /** What an application finds in its folder. */
    const place = (files: Files) => lay(releaseFolders(volume, 1).files, files, null)

    return { ...app, volume, push, place, serving: async () => (await loadApp(db, app.id))!.release }
  }

  return { host, root, app, installs, warnings }
}

export const preparedOf = async (volume: string, release: number): Promise<Prepared> =>
  (await readPrepared(releaseFolders(volume, release)))!

export const textIn = (...path: string[]): Promise<string | null> => readFile(join(...path), 'utf8').catch(() => null)

async function lay(folder: string, files: Files, owner: Owner | null): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), text)
    // Files of archives and of earlier releases are as old as they say.
    await utimes(join(folder, name), 1, 1)
    if (owner) await chown(join(folder, name), owner.uid, owner.gid)
  }
}

/** For a test file: a database, the engine, and hosts on both that install. */
export function installingHosts() {
  const docker = realDocker()
  test.serial.after.always(() => docker.clean(buildNetwork(docker.run).name))
  const database = testDatabase()
  test.before(async () => {
    await docker.prepare()
    await rows((await database).db).host(docker.run)
  })
  const hostOf = async (t: ExecutionContext) => installingHost(t, (await database).db, docker.run, { ...docker.host })
  return { docker, database, hostOf }
}
