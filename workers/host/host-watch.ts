import { setTimeout as sleep } from 'node:timers/promises'
import { type ContainerEvent, labels } from '../../activities/containers/port.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { HostRounds, type RoundsOptions } from './host-rounds.ts'

export interface WatchOptions extends RoundsOptions {
  everySeconds?: number
}

const gatherMs = 100

/** Records what happens to containers without an operation, until the signal aborts: exits, reboots, strays. */
export async function watchHost(
  options: WatchOptions,
  signal: AbortSignal,
  rounds = new HostRounds(options),
): Promise<void> {
  const { engine, hostId, log, everySeconds = roundSeconds.hostWatch } = options
  let changed = () => {}
  const take = ({ labels: of }: ContainerEvent) => {
    const appId = of[labels.app]
    if (appId === undefined) rounds.seeAll()
    else rounds.see(appId)
    changed()
  }
  const opened = () => {
    rounds.follow(true)
    changed()
  }
  const events = async () => {
    while (!signal.aborted) {
      await engine
        .watch({ [labels.host]: hostId }, take, signal, opened)
        .catch(error => log.warn({ err: error }, 'watch: the event stream broke'))
      rounds.follow(false)
      await sleep(500, undefined, { signal }).catch(() => {})
    }
  }
  const looks = async () => {
    signal.addEventListener('abort', () => changed(), { once: true })
    while (!signal.aborted) {
      const pause = new AbortController()
      changed = () => pause.abort()
      await rounds.round().catch(error => log.warn({ err: error }, 'watch: will look again'))
      await sleep(everySeconds * 1000, undefined, { signal: pause.signal }).catch(() => {})
      await sleep(gatherMs) // events come in bursts
    }
  }
  await Promise.all([events(), looks()])
}
