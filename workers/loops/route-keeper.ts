import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Notifications } from '../../db/notifications.ts'
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
  let next = () => {}
  signal.addEventListener('abort', () => next(), { once: true })
  const notifications = new Notifications(databaseUrl, ['apps', 'boots'])
  notifications.on('notify', (channel, appId) => {
    if (channel === 'boots') next()
    else void syncRoute(options, appId).catch(warn)
  })
  notifications.on('ready', () => next()) // what was announced meanwhile is lost
  await notifications.open()
  while (!signal.aborted) {
    const pause = new AbortController()
    next = () => pause.abort()
    const done = await rounds.round().then(
      ({ refused }) => {
        tell(refused)
        return true
      },
      error => warn(error),
    )
    // What a proxy that was away remembers may be old: it is told as soon as it is back.
    if (!signal.aborted)
      await sleep(done ? everySeconds * 1000 : retryMs, undefined, { signal: pause.signal }).catch(() => {})
  }
  await notifications.close()
}

const retryMs = 1000

/** Tells of a refusal when it is new, and of its end. */
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
