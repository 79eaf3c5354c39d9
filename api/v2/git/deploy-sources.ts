import type { DeploySources } from '../../../db/deploys/deploy-sources.ts'
import type { Notifications } from '../../../db/notifications.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'

const maxApps = 10_000

/** What applications are deployed from, cached for 5 minutes or until any process announces a change. */
export class DeploySourceCache {
  readonly #read: (appId: string) => Promise<DeploySources>
  readonly #sources = new TtlCache<DeploySources>(cachedSeconds.deploySources, maxApps)

  constructor(notifications: Notifications, read: (appId: string) => Promise<DeploySources>) {
    this.#read = read
    notifications.on('notify', (channel, appId) => {
      if (channel === 'deploy-sources') this.drop(appId)
    })
    // Notifications may have been missed while the connection was down.
    notifications.on('ready', () => this.#sources.clear())
  }

  of(appId: string): Promise<DeploySources> {
    return this.#sources.of(appId, () => this.#read(appId))
  }

  drop(appId: string): void {
    this.#sources.delete(appId)
  }
}
