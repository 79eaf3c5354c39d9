import { refusal } from '../../activities/failures.ts'
import type { GitProvider } from '../../activities/git-provider/port.ts'
import type { Db } from '../../db/database.ts'
import { findOrigin } from '../../db/deploys/deploy-sources.ts'
import { findLink } from '../../db/git/git-links.ts'
import { readAccessToken } from '../../db/git/webhooks.ts'
import type { Config } from '../../policy/config.ts'

/** The timeout of a build's request for its token, after which it is retried later. */
const timeoutMs = 10_000

/**
 * The password for fetching the sources of a deployment, or null: the token of its webhook, or a new one of the git-provider app
 * that can only read the linked repository. Each goes to its own server only, and is read for each fetch, so that neither is
 * stored anywhere. Rejects with AUTHENTICATION_REQUIRED when the app may no longer fetch, and otherwise with an error that can be retried.
 */
export function deployCredentials(
  db: Db,
  { sealKeys }: Pick<Config, 'sealKeys'>,
  provider: GitProvider | null,
): (deploymentId: string) => Promise<string | null> {
  return async deploymentId => {
    const origin = await findOrigin(db, deploymentId)
    if (!origin) return null
    const { appId, trigger, cloneUrl } = origin
    if (trigger === 'webhook') return readAccessToken(db, sealKeys, appId, cloneUrl)
    return trigger === 'app' ? appToken(db, provider, appId, cloneUrl) : null
  }
}

async function appToken(db: Db, provider: GitProvider | null, appId: string, cloneUrl: string): Promise<string> {
  const link = await findLink(db, appId)
  if (!link || !provider || new URL(link.cloneUrl).origin !== new URL(cloneUrl).origin)
    throw refusal('AUTHENTICATION_REQUIRED', 'The application is no longer linked to this repository.')
  const deadline = AbortSignal.timeout(timeoutMs)
  const granted = await provider.tokenOf(link.installationId, deadline, link.repositoryId)
  if (!granted)
    throw refusal('AUTHENTICATION_REQUIRED', 'The installation of the git app no longer covers this repository.')
  return granted.token
}
