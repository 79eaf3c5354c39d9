import type { Logger } from 'pino'
import { listOverdue, payOverdue } from '../../db/apps/cache-versions.ts'
import { edgeSnapshot, recordEdge } from '../../db/domains/edges.ts'
import { Notifications } from '../../db/notifications.ts'
import { allEnded } from '../../lib/async/all-ended.ts'
import { Bell, loop } from '../../lib/async/loop.ts'
import { endedWithin } from '../../lib/async/timeout.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import type { EntryRefusal } from './reconcile-table.ts'
import { earlyMs, RouteRounds } from './route-rounds.ts'
import { type RefusedRoute, syncRoute, type Tables } from './route-table.ts'

export interface RouteKeeperOptions extends Tables {
  databaseUrl: string
  log: Logger
  /** Custom names and certificates of the same proxy. */
  domains: { round(): Promise<Record<'refused' | 'unanswered', readonly EntryRefusal[]>> }
  /** What the operator calls the proxy. */
  edgeName: string
  everySeconds?: number
  /** How often everything is compared, changed or not. */
  everythingSeconds?: number
}

/**
 * Keeps the proxy's tables as Postgres has them until the signal aborts: routes of running applications, what applications have set, custom
 * names and certificates. An application that has exited loses its address before another container can get its port. Updates one
 * application when its change is announced, all changed ones every few seconds, and all routes once a minute. Each round that has succeeded
 * is recorded, so that others can wait until the proxy has their change.
 */
export async function keepRoutes(options: RouteKeeperOptions, signal: AbortSignal): Promise<void> {
  const { db, databaseUrl, domains, edgeName, log, everySeconds = roundSeconds.routes } = options
  const warn = (error: unknown) => log.warn({ err: error }, 'routes: will try again')
  const report = refusalReporter(log)
  const rounds = new RouteRounds(options)
  const bell = new Bell()
  const notifications = new Notifications(databaseUrl, ['apps', 'boots', 'domains', 'edges'])
  notifications.on('notify', (channel, appId) => {
    if (channel === 'apps') void syncRoute(options, appId).catch(warn)
    else bell.ring()
  })
  notifications.on('ready', bell.ring) // announcements in between are lost
  await notifications.open()
  // The table of a proxy that was down may be out of date: its routes are sent again as soon as it is back.
  const everyMs = ({ failed }: { failed: boolean }) => (failed ? retryMs : everySeconds * 1000)
  const round = async () => {
    const snapshot = await edgeSnapshot(db)
    // Names and certificates first where there may be none: what is served before https, or under no name, has begun in another way than it
    // goes on. Without them, or before the last of many, routes are set all the same.
    const early = (await rounds.isNew()) ? domains.round().catch(warn) : undefined
    if (early) await endedWithin(early, earlyMs)
    const [{ refused, refusedSettings, edgeId }, named] = await allEnded([rounds.round(), early])
    report('route', refused)
    report('settings', refusedSettings)
    const names = named ?? (await domains.round())
    report('name', names.refused)
    report('answer', names.unanswered)
    const hosts = [refused, refusedSettings, names.refused].flat().map(({ host }) => host)
    await recordEdge(db, edgeId ?? edgeName, snapshot, { refused: hosts, name: edgeName })
  }
  const purge = async () => {
    for (const appId of await listOverdue(db))
      await payOverdue(db, appId).catch(err => log.warn({ err, appId }, 'purging the cache: will try again'))
  }
  await Promise.all([
    loop(round, { signal, everyMs, onError: warn, bell }),
    // By itself: one application that something has locked delays no route.
    loop(purge, { signal, everyMs: everySeconds * 1000, onError: warn }),
  ])
  await notifications.close()
}

const retryMs = 1000

type Refused = Pick<RefusedRoute, 'host' | 'why'> & Partial<Pick<RefusedRoute, 'appId'>>

const refuses = (what: string) => ({ begins: `the proxy refuses ${what}`, ends: `the proxy no longer refuses ${what}` })

/** What is logged when trouble of a kind begins, and when it ends. */
const words = {
  ...{ route: refuses('a route'), settings: refuses('settings of an application'), name: refuses('a name') },
  answer: {
    begins: 'the proxy cannot answer authorities or probes',
    ends: 'the proxy can answer authorities and probes again',
  },
}
type Kind = keyof typeof words

/** Logs a refusal when it is new, and when it ends. */
function refusalReporter(log: Logger): (kind: Kind, refused: readonly Refused[]) => void {
  const reported: Partial<Record<Kind, Map<string, string>>> = {}
  return (kind, refused) => {
    const before = reported[kind] ?? new Map<string, string>()
    for (const { host, appId, why } of refused)
      if (before.get(host) !== why)
        log.error({ host, appId, why }, `routes: ${words[kind].begins}; it is tried again in each round`)
    const now = new Map(refused.map(({ host, why }) => [host, why]))
    for (const host of before.keys()) if (!now.has(host)) log.info({ host }, `routes: ${words[kind].ends}`)
    reported[kind] = now
  }
}
