import type { SealKeys } from '../../policy/seal.ts'
import type { Db } from '../database.ts'
import { webhookAddress } from '../git/webhooks.ts'

/** What an application is deployed from besides uploads. */
export interface DeploySources {
  /** Address of its webhook, 64 hex. */
  webhookAddress: string | null
  /** Repository that is linked through the git-provider app. */
  link: { repositoryId: number; fullName: string; branch: string } | null
}

export async function deploySources(db: Db, keys: SealKeys, appId: string): Promise<DeploySources> {
  const link = await db('git_links').where({ app_id: appId }).first()
  return {
    webhookAddress: await webhookAddress(db, keys, appId),
    link: link ? { repositoryId: Number(link.repository_id), fullName: link.full_name, branch: link.branch } : null,
  }
}
