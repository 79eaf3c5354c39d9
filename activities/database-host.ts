import { activityInfo, cancellationSignal } from '@temporalio/activity'
import type { DatabaseFacts } from '../db/operations/database-facts.ts'
import { neverUsedGeneration } from '../policy/databases/database-steps.ts'
import { engines } from '../policy/databases/engines.ts'
import { commandImageSeconds } from '../policy/hosts/host-slots.ts'
import { imageWithin } from './containers/image-wait.ts'
import type { ContainerHost, DiskLimits } from './containers/port.ts'
import type { HostTraits } from './containers/spec.ts'
import type { DatabaseDiskGuard } from './databases/disk-guard.ts'
import { engineStarts } from './databases/engine-starts.ts'
import type { HostedEngines } from './databases/hosted-engine.ts'
import { databaseImages } from './databases/images.ts'
import { databaseContainerName } from './databases/names.ts'
import { recordPassword } from './databases/password-record.ts'
import { EngineUnavailable } from './databases/port.ts'
import { prepareVolume } from './databases/preparation.ts'
import { databaseRemoval } from './databases/removal.ts'
import { databaseMemoryFit, hasLessMemory, tooLittleMemory } from './databases/resize/memory-fit.ts'
import {
  type DatabaseStep,
  type DatabaseStepInput,
  type DatabaseStepsOptions,
  guardedDatabaseSteps,
} from './databases/steps.ts'
import type { DatabaseTemplates } from './databases/templates/templates.ts'
import { hosted, refusal, withEngineCode } from './failures.ts'
import type { Boot } from './hosts/boot.ts'
import { exitOf } from './releases/health-gate.ts'
import type { ContainerExit } from './releases/release.ts'
import { leaveSlot } from './steps/host-slots.ts'
import type { Volumes } from './volumes/port.ts'

export interface DatabaseHostOptions extends Omit<DatabaseStepsOptions, 'hostId'> {
  engine: ContainerHost
  volumes: Volumes
  hosted: HostedEngines
  guard: DatabaseDiskGuard
  traits: HostTraits
  boot: Boot
  /** Address of this host as clients reach it, and the one that ports are published on. */
  bind: string
  /** Disk in MB of a database with this memory. */
  diskMb: (ramMb: number) => number
  /** Prepared data folders; omitted = every folder is made by itself. */
  templates?: Pick<DatabaseTemplates, 'place'> | undefined
  /** Disk limits of a volume's container; omitted = none. */
  disk?: (volume: string) => Promise<DiskLimits | null>
  /** Lets the owner's applications reach what runs now; called after every start and removal. */
  admit(): Promise<void>
}

/** A database's engine that serves. */
export interface StartedDatabase {
  containerId: string
  startedAt: string
  /** Boot of the machine in which it was started. */
  bootId: string
  /** Id of the image that it runs with. */
  imageId?: string | undefined
}

export type DatabaseHostActivities = ReturnType<typeof databaseHostActivities>

/** The steps of a container host for one database. Every effect is named by ids, so each step may be repeated. */
export function databaseHostActivities(host: DatabaseHostOptions) {
  const { engine, volumes, traits } = host
  const { begin, turn, lateTurn, assertCurrent } = guardedDatabaseSteps({ ...host, hostId: traits.id })
  const engineHosted = host.hosted
  const { guard } = host
  const nameOf = (database: DatabaseFacts) => databaseContainerName(database)
  const { start, makeReady } = engineStarts(host, assertCurrent)
  const graceOf = (database: DatabaseFacts) => engines[database.engine].stop.graceSeconds

  async function started(database: DatabaseFacts): Promise<StartedDatabase> {
    const state = await engine.inspect(nameOf(database))
    if (!state?.running) throw refusal('ACTION_FAILED', 'The engine of the database has ended.')
    return {
      containerId: state.id,
      startedAt: (state.startedAt ?? new Date()).toISOString(),
      bootId: host.boot.id,
      ...(state.imageId && { imageId: state.imageId }),
    }
  }

  return hosted(
    {
      ...databaseImages({ ...host, steps: { begin, turn } }),
      ...databaseMemoryFit({ ...host, guard: { turn, assertCurrent } }),
      ...databaseRemoval(host, lateTurn),

      /** Makes the volume of a new database: settings, certificates, and a data folder without data. */
      async prepareDatabase(input: DatabaseStepInput): Promise<void> {
        const database = (await begin('prepareDatabase', input)).database()
        await imageWithin(engine, database.image, { seconds: commandImageSeconds, signal: cancellationSignal() })
        await turn('prepareDatabase', input, async step => {
          const database = step.database()
          await prepareVolume(host, database, cancellationSignal(), () => makeReady(database))
        })
      },

      /** Starts the engine and waits until it serves. Running already is success, unless `mustStand` requires that it does not run. */
      async startDatabase(input: DatabaseStepInput, { mustStand }: { mustStand: boolean }): Promise<StartedDatabase> {
        const { start: engineStart, step } = await turn('startDatabase', input, async step => {
          const database = step.database()
          // What lacks something is attempted again for long, as undos are, and may never come to wait for its engine.
          if (!firstAttempt()) await engineHosted.demandWanted(database)
          const state = await engine.inspect(nameOf(database))
          if (mustStand && state?.running && firstAttempt())
            throw refusal('CONTAINER_ALREADY_STARTED', 'The database is already running.')
          return { start: await start(database, step.operationId), step }
        })
        // An engine may load its data for hours: meanwhile others get the slot.
        leaveSlot()
        const serving = () =>
          engineHosted.untilServing(step.database(), cancellationSignal()).then(() => started(step.database()))
        const state = await admitted(() =>
          guard
            .untilServing(step.database(), serving, repair => repairAndStart(input, repair))
            .catch(error => {
              throw hasLessMemory(step) ? tooLittleMemory(step, error) : error
            }),
        )
        return { ...state, ...engineStart }
      },

      /** Stops the engine cleanly and returns how it ended. `mustRun` requires that it runs. */
      async stopDatabase(input: DatabaseStepInput, { mustRun }: { mustRun: boolean }): Promise<ContainerExit> {
        const { name, wasRunning } = await turn('stopDatabase', input, async step => {
          const database = step.database()
          const name = nameOf(database)
          const state = await engine.inspect(name)
          if (state?.running) {
            // It serves until the one after it has nothing left to wait for.
            const next = (step.input.volumes as { copy?: number } | undefined)?.copy
            if (step.kind === 'restore' && next && next !== database.generation)
              await makeReady({ ...database, generation: next })
            await assertCurrent(step.operationId) // an undo may have begun meanwhile
            await engine.stop(name, graceOf(database))
          }
          return { name, wasRunning: state?.running ?? false }
        })
        if (mustRun && !wasRunning && firstAttempt())
          throw refusal('CONTAINER_ALREADY_STOPPED', 'The database is already stopped.')
        return exitOf(await engine.inspect(name))
      },

      /**
       * Gives the running engine the password of the row's generation, ends the customer's connections, and proves by logins that this
       * password works and that of generation `before` does not.
       */
      async setDatabasePassword(input: DatabaseStepInput, before: number): Promise<StartedDatabase> {
        return turn('setDatabasePassword', input, async step => {
          const database = step.database()
          await assertCurrent(step.operationId)
          // Before the engine: it starts with these settings if it ends meanwhile.
          await engineHosted.settle(database)
          if (!(await engine.inspect(nameOf(database)))?.running) await restart(database, step.operationId)
          const setPassword = async () => {
            await recordPassword(volumes, database, null)
            const effect = await engineHosted.locally(database, local =>
              engineHosted.adapterOf(database).setPassword(local),
            )
            await recordPassword(volumes, database, database.passwordGeneration)
            return effect
          }
          const effect = await answered(step, setPassword)
          if (effect === 'after a restart') await restart(database, step.operationId)
          await answered(step, () => engineHosted.proveLogin(database, before, cancellationSignal()))
          return started(database)
        })
      },

      /** Replaces the certificates of a running engine, which keeps its connections where it can. */
      async reissueCertificate(input: DatabaseStepInput): Promise<StartedDatabase> {
        return turn('reissueCertificate', input, async step => {
          const database = step.database()
          await assertCurrent(step.operationId)
          await engineHosted.settle(database, 'renew')
          const effect = await answered(step, () =>
            engineHosted.locally(database, local => engineHosted.adapterOf(database).reloadCertificate(local)),
          )
          if (effect === 'after a restart') await restart(database, step.operationId)
          await answered(step, () => engineHosted.proveLogin(database, neverUsedGeneration, cancellationSignal()))
          await engineHosted.certificateServed(database)
          return started(database)
        })
      },
    },
    withEngineCode,
  )

  /** False when the engine runs, or `repair` has found nothing to do. */
  function repairAndStart(input: DatabaseStepInput, repair: () => Promise<boolean>): Promise<boolean> {
    return turn('startDatabase', input, async step => {
      const database = step.database()
      if ((await engine.inspect(nameOf(database)))?.running || !(await repair())) return false
      await start(database, step.operationId)
      await host.admit()
      return true
    })
  }

  /** Admits the owner's programs while a started engine begins to serve. */
  async function admitted<T>(serving: () => Promise<T>): Promise<T> {
    const [admission, service] = await Promise.allSettled([host.admit(), serving()])
    if (service.status === 'rejected') throw service.reason
    if (admission.status === 'rejected') await host.admit()
    return service.value
  }

  /**
   * Asks once more after a restart: a customer can keep an engine from answering, by an endless script or by all its connections. Where a few
   * restarts did not help, further attempts only ask.
   */
  async function answered<T>(step: DatabaseStep, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || activityInfo().attempt > restartingAttempts) throw error
    }
    await restart(step.database(), step.operationId)
    return ask()
  }

  async function restart(database: DatabaseFacts, operationId: string): Promise<void> {
    await assertCurrent(operationId)
    await engine.stop(nameOf(database), graceOf(database))
    await start(database, operationId)
    // As after a start.
    leaveSlot()
    await admitted(() => engineHosted.untilServing(database, cancellationSignal()))
  }
}

/** As many as a command has, of which some may be lost with their host. */
const restartingAttempts = 3

/** False when an earlier attempt may have had its effect before its answer was lost. */
const firstAttempt = (): boolean => activityInfo().attempt === 1
