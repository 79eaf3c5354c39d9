import type { Db } from '../../db/database.ts'
import { databasePasswordKey, ensureAuthority, recordCertificateServed } from '../../db/databases/authorities.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { isEndWaiting } from '../../db/operations/operation-lookups.ts'
import { pause } from '../../lib/async/loop.ts'
import { once } from '../../lib/async/once.ts'
import { messageOf } from '../../lib/message-of.ts'
import { allNetworks, databaseHostname } from '../../policy/databases/connection-url.ts'
import type { DatabaseSettings } from '../../policy/databases/database-settings.ts'
import { askingPauseMs, databaseSeconds, endWaits } from '../../policy/databases/database-steps.ts'
import type { UsedMemory } from '../../policy/databases/database-warnings.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { databasePassword, platformPassword } from '../../policy/databases/passwords.ts'
import type { SealKeys } from '../../policy/seal.ts'
import { makeAuthority } from '../certificates/authority.ts'
import type { ContainerHost } from '../containers/port.ts'
import { refusal } from '../failures.ts'
import type { Volumes } from '../volumes/port.ts'
import { type CertificateUse, ensureCertificates } from './certificates.ts'
import { type DatabaseFolders, foldersOf, passwdFile, passwdOf } from './container.ts'
import { withRoom } from './disk-space.ts'
import { engineProgress } from './engines/engine-progress.ts'
import { pointInTimeOf } from './engines/point-in-time.ts'
import { databaseContainerName, databaseVolume } from './names.ts'
import {
  certificateFiles,
  type DatabaseEngine,
  type DatabaseSecrets,
  type DatabaseTraits,
  EngineUnavailable,
  type LocalEngine,
} from './port.ts'
import { makeFolders, readSetting, writeSettings } from './settings-folder.ts'
import { withSocket } from './socket.ts'

export interface HostedEngineOptions {
  db: Db
  keys: SealKeys
  engine: ContainerHost
  volumes: Volumes
  engineOf: (name: EngineName) => DatabaseEngine
  /** The domain of databases' names, and the address of their URLs where a name does not lead here. */
  domain: string
  address: string
  /** Address that ports of databases are published on. */
  bind: string
  /** The time by which certificates begin, and are due. */
  now?: () => Date
  /** Engines that can be restored to any second leave their WAL files to this host; omitted = they do not. */
  archives?: boolean
  /** Max seconds until an engine serves that makes no progress; omitted = 60. */
  serveSeconds?: number
  /** Of Redis, the setting; omitted = `always`. */
  redisSync?: DatabaseSettings['redisSync']
}

/** What an engine needs besides its container: folders, settings, certificates, and the calls of its adapter. */
export function hostedEngines(options: HostedEngineOptions) {
  const { db, keys, engine, volumes, domain, address, bind, now = () => new Date() } = options
  const authority = (now: Date) => ensureAuthority(db, keys, makeAuthority, now)
  const passwordKey = once(() => databasePasswordKey(db, keys))

  const adapterOf = ({ engine: name }: DatabaseFacts): DatabaseEngine => options.engineOf(name)
  const hostnameOf = ({ id }: DatabaseFacts): string => databaseHostname(id, domain)
  const foldersOfDatabase = (database: Pick<DatabaseFacts, 'id' | 'generation'>): DatabaseFolders =>
    foldersOf(volumes.path(databaseVolume(database)))

  function traitsOf(database: DatabaseFacts): DatabaseTraits {
    const { id, engine: name, version, ramMb: memoryMb, port, image, isScratch = false } = database
    const hostname = hostnameOf(database)
    return {
      id,
      engine: name,
      version,
      memoryMb,
      port,
      uid: database.uid,
      hostname,
      advertised: { host: hostname, port },
      standIn: image === mongoStandIn.image(version),
      archives: options.archives === true && pointInTimeOf(name) !== null && !isScratch,
      readOnly: database.readOnly,
      isScratch,
      syncsLate: name === 'redis' && options.redisSync === 'everysec',
    }
  }

  async function secretsOf({ id, passwordGeneration }: DatabaseFacts): Promise<DatabaseSecrets> {
    const key = await passwordKey()
    return {
      password: databasePassword(key, id, passwordGeneration),
      platformPassword: platformPassword(key, id),
    }
  }

  /** The signal ends what `work` requests from the engine. */
  async function locally<T>(
    database: DatabaseFacts,
    work: (local: LocalEngine) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const traits = traitsOf(database)
    const secrets = await secretsOf(database)
    const name = adapterOf(database).socketName(traits)
    return withSocket(foldersOfDatabase(database).run, name, socket => work({ socket, secrets, traits, signal }))
  }

  async function demandRunning(container: string): Promise<void> {
    const state = await engine.inspect(container)
    if (!state?.running) throw refusal('ACTION_FAILED', endedWords(state?.exitCode ?? null, state?.oom ?? false))
  }

  /** Rejects when a stop or deletion of the database waits. While our Postgres is away, nothing is known to wait. */
  async function demandWanted({ id }: Pick<DatabaseFacts, 'id'>): Promise<void> {
    if (await isEndWaiting(db, id).catch(() => false))
      throw refusal(endWaits, 'The start was ended, because the database is to be stopped or deleted.')
  }

  /** Whether a password opens the database, over TLS, at its published port. */
  async function login(database: DatabaseFacts, generation: number): Promise<'accepted' | 'refused'> {
    const pem = await readSetting(foldersOfDatabase(database), certificateFiles.authority)
    const remote = {
      host: bind === allNetworks ? '127.0.0.1' : bind,
      port: database.port,
      authority: pem ?? '',
      servername: hostnameOf(database),
    }
    return adapterOf(database).login(remote, databasePassword(await passwordKey(), database.id, generation))
  }

  return {
    adapterOf,
    traitsOf,
    hostnameOf,
    foldersOf: foldersOfDatabase,
    locally,
    demandWanted,

    /** Memory used by the data of an in-memory engine. Rejects for other engines. */
    async memoryOf(database: DatabaseFacts): Promise<UsedMemory> {
      const { memory } = adapterOf(database)
      if (!memory) throw new Error(`The data of ${database.engine} are not in memory.`)
      return locally(database, memory)
    },

    /** Writes what the engine reads at its start: settings, user names, and certificates, which are issued when they are missing. */
    async settle(database: DatabaseFacts, use: CertificateUse = 'serve'): Promise<void> {
      const folders = foldersOfDatabase(database)
      const traits = traitsOf(database)
      const names = { hostname: hostnameOf(database), address, use, now: now() }
      const files = adapterOf(database).settings(traits, await secretsOf(database))
      await withRoom(volumes.path(databaseVolume(database)), async () => {
        await makeFolders(folders, traits.uid)
        await ensureCertificates({ db, keys, authority }, database, folders, names)
        await writeSettings(folders, { ...files, [passwdFile]: passwdOf(traits.uid) }, traits.uid)
      })
    },

    /** Records that a renewed certificate is served: until then the former one may be due. */
    certificateServed: ({ id }: DatabaseFacts) => recordCertificateServed(db, id, now()),

    /**
     * Resolves once the engine in this container serves its data. Rejects with ACTION_FAILED when it ended, or made no progress for 60 s. With
     * `endsOnStop`, the default for the database's own container: also rejects if a stop or deletion of the database is waiting.
     */
    async untilServing(
      database: DatabaseFacts,
      signal: AbortSignal,
      container = databaseContainerName(database),
      endsOnStop = container === databaseContainerName(database),
    ) {
      const startedAt = performance.now()
      const { serve, load } = databaseSeconds
      const progress = engineProgress(() => engine.stats(container), { serve: options.serveSeconds ?? serve, load })
      let [inspectedAt, lookedAt] = [startedAt, startedAt]
      for (let last: unknown; ; ) {
        signal.throwIfAborted()
        try {
          return await locally(database, local => adapterOf(database).ping(local))
        } catch (error) {
          if (!(error instanceof EngineUnavailable)) throw error
          last = error
        }
        if (performance.now() - inspectedAt >= inspectEveryMs) {
          await demandRunning(container)
          inspectedAt = performance.now()
        }
        if (performance.now() - lookedAt >= lookEveryMs) {
          await progress.look()
          if (endsOnStop) await demandWanted(database)
          lookedAt = performance.now()
        }
        progress.demand(last)
        await pause(askingPauseMs(performance.now() - startedAt), signal)
      }
    },

    /**
     * Proves at the published port that the password of the row is accepted and another one refused: `before` is the one that must
     * no longer work. Rejects with the reason when that does not hold within 10 s: EngineUnavailable when that is not an answer of the engine.
     */
    async proveLogin(database: DatabaseFacts, before: number, signal: AbortSignal): Promise<void> {
      const deadline = performance.now() + databaseSeconds.login * 1000
      for (let failure: Error; ; ) {
        signal.throwIfAborted()
        try {
          const both = [database.passwordGeneration, before].map(generation => login(database, generation))
          const [own, other] = await Promise.all(both)
          if (own === 'accepted' && other === 'refused') return
          failure = new Error(
            unproved(own === 'accepted' ? 'the earlier password still works' : 'the password does not work'),
          )
        } catch (error) {
          const Kind = error instanceof EngineUnavailable ? EngineUnavailable : Error
          failure = new Kind(unproved(messageOf(error)), { cause: error })
        }
        if (performance.now() > deadline) throw failure
        await pause(pollMs, signal)
      }
    },
  }
}

export type HostedEngines = ReturnType<typeof hostedEngines>

const pollMs = 50

/** The container of an engine that does not answer is looked at less often than its socket. */
const inspectEveryMs = 100
/** What it does, and whether it is still to start, is looked at only when it takes long. */
const lookEveryMs = 1000

const unproved = (reason: string): string => `The login could not be proved: ${reason}.`

function endedWords(exitCode: number | null, oom: boolean): string {
  if (oom) return 'The engine was ended because it used more memory than the database has.'
  return `The engine ended with exit code ${exitCode ?? 'unknown'} right after its start; the logs of the database say why.`
}
