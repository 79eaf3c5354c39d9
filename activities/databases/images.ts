import { cancellationSignal } from '@temporalio/activity'
import type { Db } from '../../db/database.ts'
import type { DatabaseFacts } from '../../db/operations/database-facts.ts'
import { addToInput, type UpgradeInput } from '../../db/operations/database-inputs.ts'
import { commandImageSeconds } from '../../policy/hosts/host-slots.ts'
import { imageWithin } from '../containers/image-wait.ts'
import type { ContainerHost } from '../containers/port.ts'
import { refusal } from '../failures.ts'
import { fenced } from '../steps/claims.ts'
import { databaseContainerName } from './names.ts'
import { type PreparationOptions, servingInstead } from './preparation.ts'
import type { DatabaseStepInput, guardedDatabaseSteps } from './steps.ts'

/**
 * Id of the image that a database is started with: the one that its row keeps, so that another image under the same name changes nothing.
 * One that is no longer on the host is replaced by the one under its name: nothing else could serve the data.
 */
export async function imageToRun(
  engine: Pick<ContainerHost, 'ensureImage' | 'imageId'>,
  { image, imageId }: Pick<DatabaseFacts, 'image' | 'imageId'>,
  wait: { seconds: number; signal: AbortSignal },
): Promise<string> {
  if (imageId !== null && (await engine.imageId(imageId)) !== null) return imageId
  await imageWithin(engine, image, wait)
  return (await engine.imageId(image)) ?? image
}

interface ImageOptions extends PreparationOptions {
  db: Db
  steps: Pick<ReturnType<typeof guardedDatabaseSteps>, 'begin' | 'turn'>
}

/** The steps of an upgrade that concern its image. */
export function databaseImages(host: ImageOptions) {
  const { db, engine, steps } = host
  return {
    /** Records which image an upgrade leads to, and from which, once. Resolves to whether they differ. */
    async chooseImage(input: DatabaseStepInput): Promise<boolean> {
      const step = await steps.begin('chooseImage', input)
      const database = step.database()
      const chosen = (step.input as UpgradeInput).images
      if (chosen) return chosen.from !== chosen.to
      await imageWithin(engine, database.image, { seconds: commandImageSeconds, signal: cancellationSignal() })
      const to = await engine.imageId(database.image)
      if (to === null) throw refusal('ACTION_FAILED', `The host has no image ${database.image}.`)
      const from = database.imageId ?? (await engine.inspect(databaseContainerName(database)))?.imageId ?? null
      const images: UpgradeInput['images'] = { from, to }
      await fenced(db)(input.operationId, trx => addToInput(trx, input.operationId, { images }))
      return from !== to
    },

    /** Lets the new image serve the data of a database that does not run, and stays unreachable. Rejects with the reason. */
    async proveImage(input: DatabaseStepInput): Promise<void> {
      await steps.turn('proveImage', input, async step => {
        const database = step.database()
        // Two engines on one folder destroy it.
        if ((await engine.inspect(databaseContainerName(database)))?.running)
          throw refusal(
            'ACTION_FAILED',
            'The database runs, although it was recorded as stopped. Try again in a moment.',
          )
        await servingInstead(host, database, cancellationSignal(), async () => {})
      })
    },
  }
}
