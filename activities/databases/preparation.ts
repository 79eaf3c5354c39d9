import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Db } from '../../db/database.ts'
import { recordDisk } from '../../db/databases/database-disks.ts'
import { loadDatabase } from '../../db/databases/databases.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { deadlineSignal } from '../../lib/async/timeout.ts'
import { codeOf } from '../../lib/folders/error-codes.ts'
import { databaseSeconds } from '../../policy/databases/database-steps.ts'
import { engines } from '../../policy/databases/engines.ts'
import type { ContainerHost } from '../containers/port.ts'
import type { HostTraits } from '../containers/spec.ts'
import type { AppLocks } from '../steps/app-locks.ts'
import type { Volumes } from '../volumes/port.ts'
import type { CertificateUse } from './certificates.ts'
import type { DatabaseContents } from './contents.ts'
import { type DumpFolder, diskOf, dumpJob, limitedJob, notInitialised, runJob, type VolumeLimits } from './dump-jobs.ts'
import type { HostedEngines } from './hosted-engine.ts'
import { databaseContainerName, databaseJobName, databaseVolume } from './names.ts'
import { recordPassword } from './password-record.ts'
import type { LocalEngine } from './port.ts'
import { writeMarker } from './settings-folder.ts'
import type { DatabaseTemplates } from './templates/templates.ts'

export interface PreparationOptions {
  engine: ContainerHost
  volumes: Volumes
  hosted: HostedEngines
  traits: HostTraits
  /** Disk in MB of a database with this memory. */
  diskMb: (ramMb: number) => number
  disk?: VolumeLimits | undefined
  /** Prepared data folders; omitted = every folder is made by itself. */
  templates?: Pick<DatabaseTemplates, 'place'> | undefined
}

export interface CopyUse {
  contents: DatabaseContents
  dump: DumpFolder
  /** With an unreachable engine, once it has its contents. */
  loaded?: (local: LocalEngine) => Promise<void>
  /** The volume is to serve later; one that is only compared need not be on the disk. */
  isKept: boolean
  /** False where nothing is known to compare its contents with: they are not read then. */
  isCompared: boolean
}

/** Exists once the data folder is complete. Next to the folders of the engine, which cannot reach it. */
const marker = 'initialised'

/**
 * Makes the volume of a new database with a data folder that its engine can serve. Without the mark at its end everything is made anew:
 * an interrupted attempt leaves nothing that a later one would use. `meanwhile` is called while what was made gets onto the disk.
 */
export async function prepareVolume(
  options: PreparationOptions,
  database: DatabaseFacts,
  signal: AbortSignal,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  const { volumes } = options
  const volume = databaseVolume(database)
  if (await isInitialised(volumes.path(volume))) return
  await initialise(options, database, 'serve', signal)
  await allEnded([completeVolume(options, volume), meanwhile()])
}

/**
 * Makes a volume with the contents of a dump, in an unreachable engine, and resolves to their digest, or nothing when they
 * are not compared. `database` has the generation of the new volume. An interrupted attempt is made anew.
 */
export async function prepareCopy(
  options: PreparationOptions,
  facts: DatabaseFacts,
  { contents, dump, loaded, isKept, isCompared }: CopyUse,
  signal: AbortSignal,
): Promise<string> {
  const database = { ...facts, isScratch: !isKept }
  const { hosted, engine, traits } = options
  await initialise(options, database, 'privately', signal)
  const folders = hosted.foldersOf(database)
  const job = (writesData: boolean, disk: DumpFolder['disk']) =>
    dumpJob({ engine, traits, database, folders, dump: dump.folder, disk, writesData, signal })
  await contents.loadBeforeStart(hosted.traitsOf(database), job(true, await diskOf(options, database)))
  const digest = await servingPrivately(options, database, signal, () =>
    hosted.locally(
      database,
      async engine => {
        const local = { ...engine, isCopy: true }
        await hosted.adapterOf(database).setPassword(local)
        await contents.load(local, job(false, dump.disk))
        const digest = isCompared ? await contents.digest(local) : ''
        await loaded?.(local)
        return digest
      },
      signal,
    ),
  )
  if (!isKept) return digest
  await recordPassword(options.volumes, database, database.passwordGeneration)
  await completeVolume(options, databaseVolume(database))
  return digest
}

/** The volume of a database that is about to be started, as large as its memory requires; its row has that before the file has. */
export async function growVolume(
  { db, volumes, diskMb }: Pick<PreparationOptions, 'volumes' | 'diskMb'> & { db: Db },
  database: DatabaseFacts,
): Promise<void> {
  if (database.ramMb > database.diskForMb) await recordDisk(db, database.id, database.ramMb)
  await volumes.ensure(databaseVolume(database), diskMb(database.ramMb), database.uid, 'before')
}

/** Removes the volume that an interrupted attempt has left, and its container. */
export async function discardVolume(
  { engine, volumes }: Pick<PreparationOptions, 'engine' | 'volumes'>,
  database: DatabaseFacts,
): Promise<void> {
  await engine.remove(databaseJobName(database))
  await volumes.remove(databaseVolume(database))
}

/** An empty volume in the place of what an interrupted attempt has left, and of its container. */
export async function emptyVolume(options: PreparationOptions, database: DatabaseFacts): Promise<void> {
  const { volumes, diskMb } = options
  await discardVolume(options, database)
  await volumes.ensure(databaseVolume(database), diskMb(database.diskForMb), database.uid)
}

/** An empty volume with settings, certificates and an initialised data folder: a copy of one that was made before, if there is one. */
async function initialise(
  options: PreparationOptions,
  database: DatabaseFacts,
  use: CertificateUse,
  signal: AbortSignal,
): Promise<void> {
  const { hosted, engine, templates } = options
  const adapter = hosted.adapterOf(database)
  const { data } = hosted.foldersOf(database)
  await emptyVolume(options, database)
  // Both end before a failure is passed on: the next attempt removes what they write to.
  const image = database.imageId ?? database.image
  const [isPlaced] = await allEnded([
    templates?.place({ ...database, image }, { data, uid: database.uid }, signal) ?? Promise.resolve(false),
    hosted.settle(database, use),
  ])
  if (isPlaced) return
  for (const command of adapter.initialise(hosted.traitsOf(database))) {
    const within = deadlineSignal(databaseSeconds.initialise * 1000, signal)
    await runJob(engine, await limitedJob(options, database, command), within).catch(notInitialised)
  }
}

/** The volume has what it is to have, also after a power cut. */
export async function completeVolume({ volumes }: PreparationOptions, volume: string): Promise<void> {
  await volumes.flush(volume)
  await writeMarker(join(volumes.path(volume), marker))
}

/** Whether the data in the folder of a volume are complete: what was only compared, or is being made, never is. Rejects when that cannot be seen. */
export async function isInitialised(folder: string): Promise<boolean> {
  return access(join(folder, marker)).then(
    () => true,
    error => {
      if (codeOf(error) !== 'ENOENT') throw error
      return false
    },
  )
}

/** Whether an engine that does not run is about to, by the status of its row. */
const isAboutToRun = (status = ''): boolean => ['starting', 'running', 'restarting'].includes(status)

/**
 * As `servingPrivately`, on the volume that serves, whose own engine does not run. For callers that hold the lock of the database: two
 * engines on one volume destroy it.
 */
export async function servingInstead<T>(
  options: PreparationOptions,
  database: DatabaseFacts,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  await settleServing(options, database)
  return servingPrivately(options, database, signal, work)
}

/**
 * As `servingInstead`, for callers without the lock, which is held only while this engine begins: a start of the database then finds it, and
 * ends it (other-engines.ts). Rejects, to be tried again, when the database runs or is about to.
 */
export function servingMeanwhile<T>(
  options: PreparationOptions & { db: Db; locks: AppLocks },
  database: DatabaseFacts,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const { db, engine, locks } = options
  return servingPrivately(options, database, signal, work, false, begin =>
    locks(database.id, async () => {
      signal.throwIfAborted() // the wait may have been long
      const runs = (await engine.inspect(databaseContainerName(database)))?.running
      if (runs || isAboutToRun((await loadDatabase(db, database.id))?.status))
        throw new Error('The engine of the database has ended, and is started again.')
      await settleServing(options, database)
      await begin()
    }),
  )
}

async function settleServing({ volumes, hosted, diskMb }: PreparationOptions, database: DatabaseFacts): Promise<void> {
  await volumes.ensure(databaseVolume(database), diskMb(database.ramMb), database.uid, 'before')
  await hosted.settle(database, 'privately')
}

/**
 * Runs work while an engine serves in a container without reachable ports, and stops it cleanly. `endsOnStop`: as of `untilServing`. `around`
 * is called with what starts it. What takes its place meanwhile, by the same name, is left alone.
 */
export async function servingPrivately<T>(
  options: PreparationOptions,
  database: DatabaseFacts,
  signal: AbortSignal,
  work: () => Promise<T>,
  endsOnStop = false,
  around: (begin: () => Promise<void>) => Promise<void> = begin => begin(),
): Promise<T> {
  const { engine, hosted } = options
  const job = await limitedJob(options, database, hosted.adapterOf(database).command(hosted.traitsOf(database)))
  // MongoDB looks for itself under the name that its clients know.
  const spec = { ...job, ownNames: [hosted.hostnameOf(database)] }
  let own: string | undefined
  try {
    await around(async () => {
      await engine.remove(spec.name)
      own = await engine.create(spec)
      await engine.start(spec.name)
    })
    await hosted.untilServing(database, signal, spec.name, endsOnStop)
    const outcome = await work()
    if (own) await engine.stop(own, engines[database.engine].stop.graceSeconds)
    return outcome
  } finally {
    if (own) await engine.remove(own)
  }
}
