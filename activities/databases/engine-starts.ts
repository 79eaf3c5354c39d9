import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { commandImageSeconds } from '../../policy/hosts/host-slots.ts'
import type { ContainerSpec } from '../containers/port.ts'
import { fingerprinted, tenantNetwork } from '../containers/spec.ts'
import type { Boot } from '../hosts/boot.ts'
import { startContainer } from '../releases/start.ts'
import { leaveSlot } from '../steps/host-slots.ts'
import { databaseContainer } from './container.ts'
import type { DatabaseDiskGuard } from './disk-guard.ts'
import { imageToRun } from './images.ts'
import { databaseContainerName, databaseVolume } from './names.ts'
import { endOtherEngines } from './other-engines.ts'
import { hasOtherPassword, recordPassword } from './password-record.ts'
import { growVolume, type PreparationOptions, servingPrivately } from './preparation.ts'

export interface EngineStartOptions extends PreparationOptions {
  db: Db
  guard: DatabaseDiskGuard
  boot: Boot
  /** Address that ports of databases are published on. */
  bind: string
}

/** How the engine of a database begins to serve. For callers that hold the lock of the database; `assertCurrent` rejects when a step was given up. */
export function engineStarts(host: EngineStartOptions, assertCurrent: (operationId: string) => Promise<void>) {
  const { engine, traits, hosted, guard } = host

  /** The container that serves, in a network that is there, and the image in it. */
  async function containerOf(database: DatabaseFacts): Promise<{ spec: ContainerSpec; imageId: string }> {
    const command = hosted.adapterOf(database).command(hosted.traitsOf(database))
    const where = { hostname: hosted.hostnameOf(database), address: host.bind, host: traits }
    const wait = { seconds: commandImageSeconds, signal: cancellationSignal() }
    const [imageId, disk] = await allEnded([
      imageToRun(engine, database, wait),
      host.disk?.(databaseVolume(database)) ?? Promise.resolve(undefined),
      engine.ensureNetwork(tenantNetwork(database.ownerId, traits.id)),
    ])
    const container = databaseContainer({ ...database, imageId }, hosted.foldersOf(database), command, where)
    return { spec: fingerprinted({ ...container, disk }), imageId }
  }

  return {
    /**
     * Does before the start on a new volume what changes nothing for anyone, so that the start has less to do: its container, which does not
     * run, and its ballast. Not its certificates: they are those of the row, by which another volume may serve. What fails here is done by
     * the start, or fails it.
     */
    async makeReady(database: DatabaseFacts): Promise<void> {
      const ready = async () => {
        await growVolume(host, database)
        await allEnded([containerOf(database).then(({ spec }) => engine.create(spec)), guard.lay(database)])
      }
      await ready().catch(ignoreError('the start does it, or reports why not'))
    },

    /** Running already is success. Resolves to the boot and the image in which it runs. */
    async start(row: DatabaseFacts, operationId: string): Promise<{ bootId: string; imageId: string }> {
      await growVolume(host, row)
      const isRunning = (await engine.inspect(databaseContainerName(row)))?.running ?? false
      const settled = async () => {
        const database = isRunning ? row : await guard.beforeStart(row)
        await hosted.settle(database, isRunning ? 'serve' : 'start')
        return database
      }
      const [database, { spec, imageId }] = await allEnded([settled(), containerOf(row)])
      const bootId = await host.boot.settle()
      await assertCurrent(operationId)
      await endOtherEngines(engine, traits.id, database)
      await renewPassword(host, { ...database, imageId }, cancellationSignal())
      await startContainer(engine, spec, { alone: false, assertCurrent: () => assertCurrent(operationId) })
      return { bootId, imageId }
    },
  }
}

/**
 * Gives an engine that does not run, and stays unreachable, the password of its row if its volume has another one: it was made from a
 * snapshot, or set aside, before the password was reset. Otherwise a password that was replaced would open the database again.
 */
async function renewPassword(options: PreparationOptions, database: DatabaseFacts, signal: AbortSignal): Promise<void> {
  const { engine, volumes, hosted } = options
  if (!(await hasOtherPassword(volumes, database))) return
  if ((await engine.inspect(databaseContainerName(database)))?.running) return
  const setPassword = () => hosted.locally(database, local => hosted.adapterOf(database).setPassword(local), signal)
  // It may load its data for hours: meanwhile others get the slot, and a stop or deletion need not wait.
  leaveSlot()
  await servingPrivately(options, database, signal, setPassword, true)
  await recordPassword(volumes, database, database.passwordGeneration)
}
