import { purgeCache } from '../../db/apps/cache-versions.ts'
import type { Db } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { recordDeployment } from '../releases/deployment-state.ts'
import type { LaneOperation } from '../releases/release.ts'
import type { Fence } from './claims.ts'

/** Makes the proxy's route of an application equal to its rows; rejects when the proxy is unreachable. */
export type RouteNow = (appId: string) => Promise<void>

/** What files of a release mean for answers that the proxy has cached of the release that serves. */
export function placedFiles(fence: Fence, routeNow: RouteNow) {
  return {
    /** The files are in place; the deploy wanted no restart. Once it counts as done, nothing that was cached before is served. */
    async filesServe(operation: LaneOperation): Promise<void> {
      await fence(operation, (trx, { release }) => purgeCache(trx, release.appId))
      await routeNow(operation.release.appId).catch(
        ignoreError('the route keeper does it as soon as the proxy answers'),
      )
      await fence(operation, async (trx, { id, release }) => {
        await recordDeployment(trx, release, { state: 'success' })
        await operations.finishOperation(trx, id, { state: 'success' })
      })
    },
  }
}

/** For a deploy that has failed: its files may have been in place, and the release that serves has answered with them meanwhile. */
export async function purgeIfPlaced(trx: Db, appId: string): Promise<void> {
  if (await operations.isSwitching(trx, appId)) await purgeCache(trx, appId)
}
