import type { SealKeys } from '../../policy/seal.ts'
import type { Db } from '../database.ts'
import { readWebhookAddress } from '../git/webhooks.ts'
import type { DeploymentRow } from './deployments.ts'

/** What an application is deployed from, apart from uploads. */
export interface DeploySources {
  /** Address of its webhook, 64 hex. */
  webhookAddress: string | null
  /** Repository that is linked through the git-provider app. */
  link: { repositoryId: number; fullName: string; branch: string } | null
}

export async function readDeploySources(db: Db, keys: SealKeys, appId: string): Promise<DeploySources> {
  const link = await db('git_links').where({ app_id: appId }).first()
  return {
    webhookAddress: await readWebhookAddress(db, keys, appId),
    link: link ? { repositoryId: Number(link.repository_id), fullName: link.full_name, branch: link.branch } : null,
  }
}

export interface Origin {
  appId: string
  trigger: DeploymentRow['trigger']
  cloneUrl: string
}

/** What triggered a deployment, and the repository that it fetches. Null for one that fetches none, and for a missing one. */
export async function findOrigin(db: Db, deploymentId: string): Promise<Origin | null> {
  const row = await db('deployments').where({ id: deploymentId }).first('app_id', 'trigger', 'clone_url')
  return row?.clone_url ? { appId: row.app_id, trigger: row.trigger, cloneUrl: row.clone_url } : null
}
