import { assertMemory } from '../../../db/accounts/account-reservations.ts'
import { findUser } from '../../../db/accounts/accounts.ts'
import { type AppRow, findApp } from '../../../db/apps/apps.ts'
import { type DeployRequest, queueDeploy } from '../../../db/deploys/deploys.ts'
import { type Plan, planOf } from '../../../policy/accounts/plans.ts'
import { assertKeepsAddress } from '../../../policy/apps/address-rules.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { CodedError } from '../../../policy/errors.ts'
import { accept } from '../../pipeline/acceptance.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { type InTransaction, withoutKey } from '../../pipeline/idempotent.ts'
import type { Services } from '../../services.ts'
import { isArchive, type Upload } from '../../uploads/uploads.ts'
import { uploadedConfig } from '../apps/archive-config.ts'
import { wakeLane } from '../apps/command.ts'

export interface Commit {
  upload: Upload
  /** Below the application's folder; '' = its root. */
  folder: string
  /** Its dependencies are installed anew. */
  isClean?: boolean
  app: AppRow
  caller: Caller
}

type Nothing = Record<string, never>

/** Queues a deploy of a stored upload and wakes the application's lane. `X-Operation-Id` in `headers` is the operation's id then. */
export async function queueCommit(
  commit: Commit,
  headers: Record<string, string>,
  services: Services,
  inTransaction: InTransaction<Nothing> = withoutKey(services.db),
): Promise<Nothing> {
  const { upload, folder, isClean, app, caller } = commit
  const config = await uploadedConfig(upload, { folder, account: caller.user.id }, services)
  if (config) await checkConfig(config, commit, services)
  const deploy: DeployRequest = {
    appId: app.id,
    ownerId: app.owner_id,
    actor: caller.user.id,
    trigger: 'upload',
    revision: upload.sha256.slice(0, 40),
    archive: { segmentId: upload.segmentId, bytes: upload.size, sha256: upload.sha256 },
    path: folder,
    filename: isArchive(upload.fileName) ? undefined : upload.fileName,
    config,
    noCache: isClean,
    accepting: true,
  }
  const { answer } = await inTransaction(
    async trx => {
      const queued = await queueDeploy(trx, deploy)
      if (!queued) throw new CodedError((await findApp(trx, app.owner_id, app.id)) ? 'COMMIT_FAILED' : 'APP_NOT_FOUND')
      headers['X-Operation-Id'] = queued.operationId
      return { operationId: queued.operationId, answer: {} as Nothing }
    },
    work => accept(services, work),
  )
  wakeLane(services, app)
  return answer
}

/** Refuses early what the release would refuse. The release checks again, because the plan may be used up by then. */
async function checkConfig(config: AppConfigFile, { app, caller }: Commit, services: Services): Promise<void> {
  assertKeepsAddress(config, app.subdomain)
  const moreMb = config.memoryMb - app.ram_mb
  if (moreMb <= 0) return
  const plan = caller.user.id === app.owner_id ? caller.plan : await planOfOwner(app, services)
  await assertMemory(services.db, { ownerId: app.owner_id, planMb: plan.memoryMb, moreMb })
}

/** A member of a workspace commits to an application that uses the plan of its owner. */
async function planOfOwner({ owner_id }: AppRow, { db, plans }: Services): Promise<Plan> {
  const owner = await findUser(db, owner_id)
  if (!owner) throw new CodedError('APP_NOT_FOUND')
  return planOf(plans, owner, new Date()).plan
}
