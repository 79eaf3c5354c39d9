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
  /** How often everything is compared, whether it has changed or not. */
  everythingSeconds?: number
}

/**
 * Keeps the proxy's table equal to what runs until the signal aborts: an application that ended by itself loses its address
 * before another container can be given its port. One application at its announced change, what has changed every few seconds, and
 * everything once a minute.
 */
export async function keepRoutes(options: RouteKeeperOptions, signal: AbortSignal): Promise<void> {
  const { databaseUrl, log, everySeconds = roundSeconds.routes } = options
  const warn = (error: unknown) => log.warn({ err: error }, 'routes: will try again')
  const tell = refusals(log)
  const rounds = new RouteRounds(options)
  const bell = new Bell()
  const notifications = new Notifications(databaseUrl, ['apps', 'boots'])
  notifications.on('notify', (channel, appId) => {
    if (channel === 'boots') bell.ring()
    else void syncRoute(options, appId).catch(warn)
  })
  notifications.on('ready', bell.ring) // what was announced meanwhile is lost
  await notifications.open()
  // What a proxy that was away remembers may be old: its routes are sent again as soon as it is back.
  const everyMs = ({ failed }: { failed: boolean }) => (failed ? retryMs : everySeconds * 1000)
  await loop(async () => tell((await rounds.round()).refused), { signal, everyMs, onError: warn, bell })
  await notifications.close()
}

const retryMs = 1000

/** Logs a refusal when it is new, and its end. */
function refusals(log: Logger): (refused: readonly Refusal[]) => void {
  let told = new Map<string, string>()
  return refused => {
    for (const { host, appId, why } of refused)
      if (told.get(host) !== why)
        log.error({ host, appId, why }, 'routes: the proxy refuses one, it is tried again with each round')
    const now = new Map(refused.map(({ host, why }) => [host, why]))
    for (const host of told.keys())
      if (!now.has(host)) log.info({ host }, 'routes: nothing is refused for this name any more')
    told = now
  }
}
