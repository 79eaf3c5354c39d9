import { transaction } from '../../../db/database.ts'
import { claimNextOperation, finishOperation } from '../../../db/operations/operations.ts'
import { comesTrue } from '../comes-true.ts'
import type { Answer, TestApi, TestUser } from './api.ts'

/** An application whose deletion was requested and waits for its host, until `fail` ends it and resolves to the caller's answer. */
export async function deletionUnderWay(
  api: TestApi,
  { ana, app }: { ana: TestUser; app: { id: string } },
): Promise<{ fail(): Promise<Answer> }> {
  api.lanes.asleep = true
  const answer = api.as(ana).delete(`/v2/apps/${app.id}`)
  const waits = () => api.db('operations').where({ target_id: app.id, kind: 'delete', state: 'queued' }).first('id')
  await comesTrue(async () => (await waits()) !== undefined)
  return {
    async fail() {
      const deletion = (await claimNextOperation(api.db, { type: 'app', id: app.id }))!
      await transaction(api.db, trx => finishOperation(trx, deletion.id, { state: 'error', code: 'ACTION_FAILED' }))
      return answer
    },
  }
}
