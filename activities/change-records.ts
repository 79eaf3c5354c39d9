import { adoptConfig, assertAdoptable, revertConfig } from '../db/apps/app-configuration.ts'
import type { Db } from '../db/database.ts'
import * as operations from '../db/operations/operations.ts'
import type { Plans } from '../policy/accounts/plans.ts'
import { refusal, refusing } from './failures.ts'
import { type DecisionOptions, decide, decideServing } from './releases/decision.ts'
import type { LaneOperation, Serving } from './releases/release.ts'
import type { Fence } from './steps/claims.ts'

export interface ChangeRecordsOptions extends DecisionOptions {
  db: Db
  plans: Plans
}

/** Records of a deploy that begins to change versions, and of its configuration. */
export function changeRecords(options: ChangeRecordsOptions, fence: Fence) {
  const { db, plans, diskMbPer256Mb } = options

  async function servingOf(trx: Db, { id }: LaneOperation): Promise<Serving> {
    const serving = await decideServing(trx, options, id)
    if (!serving) throw refusal('APP_NOT_FOUND', 'The application was deleted.')
    return serving
  }

  const adopt = (trx: Db, deploymentId: string) => refusing(adoptConfig(trx, { deploymentId, plans, diskMbPer256Mb }))

  return {
    /**
     * The operation, decided again after its deployment brought a configuration. Rejects when that could not be adopted as things are: its
     * owner need not wait for a build to read that.
     */
    async decideAgain(operationId: string): Promise<LaneOperation> {
      const decided = await decide(db, options, operationId)
      if (!decided) throw refusal('APP_NOT_FOUND', 'The application was deleted.')
      const { deploymentId } = decided.release
      if (deploymentId) await refusing(assertAdoptable(db, { deploymentId, plans, diskMbPer256Mb }))
      return decided
    },

    /**
     * From here on the host watch leaves the application's containers to this deploy, and the application has its configuration. Resolves
     * to the release that serves before, decided without what an attempt adopted before Temporal was lost.
     */
    async beginChange(operation: LaneOperation): Promise<Serving> {
      let serving: Serving | null = null
      await fence(operation, async (trx, { id, release }) => {
        await operations.recordStep(trx, id, operations.changingVersions)
        if (release.deploymentId) await revertConfig(trx, release.deploymentId)
        serving = await servingOf(trx, operation)
        if (release.deploymentId) await adopt(trx, release.deploymentId)
      })
      return serving ?? servingOf(db, operation)
    },

    /** The first part of `beginChange`, for lanes of an older version. */
    async recordChange(operationId: string): Promise<void> {
      await fence(operationId, trx => operations.recordStep(trx, operationId, operations.changingVersions))
    },

    /** The second part of `beginChange`, for lanes of an older version. */
    async serving(operation: LaneOperation): Promise<Serving> {
      const { deploymentId } = operation.release
      await fence(operation, async trx => deploymentId && revertConfig(trx, deploymentId))
      return servingOf(db, operation)
    },

    /** The last part of `beginChange`, for lanes of an older version. */
    async adoptConfig(operation: LaneOperation): Promise<void> {
      const { deploymentId } = operation.release
      await fence(operation, async trx => deploymentId && adopt(trx, deploymentId))
    },

    async revertConfig(operation: LaneOperation): Promise<void> {
      await fence(
        operation,
        async (trx, { release }) => release.deploymentId && revertConfig(trx, release.deploymentId),
      )
    },
  }
}
