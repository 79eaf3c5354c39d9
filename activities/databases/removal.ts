import { type ContainerHost, labels } from '../containers/port.ts'
import type { HostTraits } from '../containers/spec.ts'
import { removeTenant } from '../containers/tenant.ts'
import { refusal } from '../failures.ts'
import type { Volumes } from '../volumes/port.ts'
import { databaseOfVolume } from './names.ts'
import type { DatabaseStepInput, guardedDatabaseSteps } from './steps.ts'

interface RemovalOptions {
  engine: ContainerHost
  volumes: Volumes
  traits: HostTraits
  /** Lets the owner's applications reach what runs now. */
  admit(): Promise<void>
}

/** The steps of a host that remove a database that is deleted, or was never made. */
export function databaseRemoval(
  { engine, volumes, traits, admit }: RemovalOptions,
  lateTurn: ReturnType<typeof guardedDatabaseSteps>['lateTurn'],
) {
  return {
    /** Removes every container of the database, whatever its volume or role. */
    async removeDatabaseContainers(input: DatabaseStepInput): Promise<void> {
      await lateTurn('removeDatabaseContainers', input, async ({ databaseId, running, row }) => {
        if (row && !running) throw refusal('ACTION_FAILED', `The database ${databaseId} is not being deleted.`)
        for (const { name } of await engine.list({ [labels.host]: traits.id, [labels.database]: databaseId }))
          await engine.remove(name)
      })
      await admit()
    },

    /** Removes its volumes, what a creation has made to run on them, and the owner's network and share of the host when nothing else uses them. */
    async removeDatabaseVolumes(input: DatabaseStepInput): Promise<void> {
      const ownerId = await lateTurn('removeDatabaseVolumes', input, async step => {
        const { row, running, kind, databaseId } = step
        if (row && !(running && kind === 'create'))
          throw refusal('ACTION_FAILED', `The database ${databaseId} is not deleted yet.`)
        for (const { name } of await engine.list({ [labels.host]: traits.id, [labels.database]: databaseId }))
          await engine.remove(name)
        for (const volume of await volumes.list())
          if (databaseOfVolume(volume)?.id === databaseId) await volumes.remove(volume)
        return step.ownerId
      })
      const others = await engine.list({ [labels.host]: traits.id, [labels.owner]: ownerId })
      if (others.length === 0) await removeTenant(engine, ownerId, traits.id)
    },
  }
}
