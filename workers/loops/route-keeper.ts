import type { Logger } from 'pino'
import { Notifications } from '../../db/notifications.ts'
import { Bell, loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { RouteRounds } from './route-rounds.ts'
import { type Refusal, syncRoute, type Tables } from './route-table.ts'

export interface RouteKeeperOptions extends Tables {
  databaseUrl: string
  log: Logger
  everySeconds?: number
  /** How often everything is compared, changed or not. */
  everythingSeconds?: number
}

/**
 * Keeps the proxy's table equal to the running applications until the signal aborts: an application that has exited loses its address
 * before another container can get its port. Updates one application when its change is announced, all changed ones every few seconds,
 * and everything once a minute.
 */
export async function keepRoutes(options: RouteKeeperOptions, signal: AbortSignal): Promise<void> {
  const { databaseUrl, log, everySeconds = roundSeconds.routes } = options
  const warn = (error: unknown) => log.warn({ err: error }, 'routes: will try again')
  const report = refusalReporter(log)
  const rounds = new RouteRounds(options)
  const bell = new Bell()
  const notifications = new Notifications(databaseUrl, ['apps', 'boots'])
  notifications.on('notify', (channel, appId) => {
    if (channel === 'boots') bell.ring()
    else void syncRoute(options, appId).catch(warn)
  })
  notifications.on('ready', bell.ring) // announcements in between are lost
  await notifications.open()
  // The table of a proxy that was down may be out of date: its routes are sent again as soon as it is back.
  const everyMs = ({ failed }: { failed: boolean }) => (failed ? retryMs : everySeconds * 1000)
  await loop(async () => report((await rounds.round()).refused), { signal, everyMs, onError: warn, bell })
  await notifications.close()
}

const retryMs = 1000

/** Logs a refusal when it is new, and when it ends. */
function refusalReporter(log: Logger): (refused: readonly Refusal[]) => void {
  let reported = new Map<string, string>()
  return refused => {
    for (const { host, appId, why } of refused)
      if (reported.get(host) !== why)
        log.error({ host, appId, why }, 'routes: the proxy refuses one; it is tried again in each round')
    const now = new Map(refused.map(({ host, why }) => [host, why]))
    for (const host of reported.keys())
      if (!now.has(host)) log.info({ host }, 'routes: the proxy no longer refuses this name')
    reported = now
  }
}
