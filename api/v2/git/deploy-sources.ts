import type { DeploySources } from '../../../db/deploys/deploy-sources.ts'
import type { Notifications } from '../../../db/notifications.ts'
import { cachedSeconds } from '../../../policy/cached-answers.ts'

const mostKept = 10_000

/** What applications are deployed from, kept for 5 minutes or until any process announces a change. */
export class KnownSources {
  #read: (appId: string) => Promise<DeploySources>
  #kept = new Map<string, { until: number; sources: Promise<DeploySources> }>()

  constructor(notifications: Notifications, read: (appId: string) => Promise<DeploySources>) {
    this.#read = read
    notifications.on('notify', (channel, appId) => {
      if (channel === 'deploy-sources') this.drop(appId)
    })
    // What was announced while the line was down is unknown.
    notifications.on('ready', () => this.#kept.clear())
  }

  of(appId: string): Promise<DeploySources> {
    const now = performance.now()
    const known = this.#kept.get(appId)
    if (known && known.until > now) return known.sources
    if (this.#kept.size >= mostKept) this.#kept.clear()
    const entry = { until: now + cachedSeconds.deploySources * 1000, sources: this.#read(appId) }
    this.#kept.set(appId, entry)
    entry.sources.catch(() => {
      if (this.#kept.get(appId) === entry) this.#kept.delete(appId)
    })
    return entry.sources
  }

  drop(appId: string): void {
    this.#kept.delete(appId)
  }
}
