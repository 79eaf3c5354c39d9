import { appOf } from '../../activities/containers/port.ts'
import { stopGraceSeconds } from '../../activities/containers/spec.ts'
import { databaseOfVolume } from '../../activities/databases/names.ts'
import * as apps from '../../db/apps/apps.ts'
import { type Db, transaction } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import type { Residents } from './watch/residents.ts'

/** The applications of a host; each has one volume, named by its id. */
export function appResidents(db: Db): Residents<apps.HostApp> {
  return {
    words: { one: 'an application', many: 'applications' },
    keyOf: container => appOf(container) || null,
    ownsVolume: volumeId => databaseOfVolume(volumeId) === null,
    keyOfRow: ({ id }) => id,
    lockOf: id => id,
    subjectOf: appId => ({ appId }),
    graceSeconds: stopGraceSeconds,

    async residence(id) {
      if (await apps.loadApp(db, id)) return 'known'
      return (await operations.wasRemoved(db, id)) ? 'removed' : 'unknown'
    },

    async startAgain(app) {
      await bringBack(db, app)
    },
  }
}

/** Queues the start of an application that counts as running and is to run; not behind another operation, as a stop would be undone. */
export async function bringBack(db: Db, app: Pick<apps.HostApp, 'id' | 'owner_id'>): Promise<void> {
  await transaction(db, async trx => {
    if (await operations.isBusy(trx, app.id)) return
    if (await apps.holdRunning(trx, app.id)) await enqueueStart(trx, app)
  })
}

export async function enqueueStart(db: Db, app: Pick<apps.HostApp, 'id' | 'owner_id'>): Promise<void> {
  await operations.enqueueOperation(db, {
    targetId: app.id,
    kind: 'start',
    ownerId: app.owner_id,
    actor: operations.watchActor,
  })
}
