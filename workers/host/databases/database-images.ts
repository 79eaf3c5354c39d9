import type { Logger } from 'pino'
import type { ContainerHost } from '../../../activities/containers/port.ts'
import type { Db } from '../../../db/database.ts'
import { imagesOfDatabases, recordDatabaseImageIds } from '../../../db/hosts/database-images.ts'
import { loop } from '../../../lib/async/loop.ts'
import { type DatabaseSettings, imagesOnOffer } from '../../../policy/databases/database-settings.ts'
import { roundSeconds } from '../../../policy/rounds.ts'

export interface DatabaseImagesOptions {
  db: Db
  engine: Pick<ContainerHost, 'imageId' | 'removeReplacedImages'>
  hostId: string
  databases: DatabaseSettings
  log: Logger
  everySeconds?: number
}

/**
 * Records which images this host has under the names of databases' images, until the signal aborts. `berth databases upgrade` compares them
 * with those that databases run with. At the start, and when one has changed, images of older versions of our programs are removed, unless
 * a database is to start with them.
 */
export async function keepDatabaseImages(options: DatabaseImagesOptions, signal: AbortSignal): Promise<void> {
  const { db, engine, hostId, databases, log, everySeconds = roundSeconds.databaseImageIds } = options
  let recorded = ''
  const look = async () => {
    const ids: Record<string, string> = {}
    for (const image of imagesOnOffer(databases)) {
      const id = await engine.imageId(image)
      if (id !== null) ids[image] = id
    }
    const text = JSON.stringify(ids)
    if (text === recorded) return
    await recordDatabaseImageIds(db, hostId, ids)
    recorded = text
    await engine.removeReplacedImages(() => imagesOfDatabases(db))
  }
  await loop(look, {
    signal,
    everyMs: everySeconds * 1000,
    onError: error => {
      if (!signal.aborted) log.warn({ err: error }, 'ids of images: will try again')
    },
  })
}
