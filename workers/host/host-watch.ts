import { type ContainerEvent, labels } from '../../activities/containers/port.ts'
import { Bell, loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { HostRounds, type RoundsOptions } from './host-rounds.ts'

export interface WatchOptions extends RoundsOptions {
  everySeconds?: number
}

const gatherMs = 100

/** Records changes of containers outside of operations, until the signal aborts: exits, reboots, strays. */
export async function watchHost(
  options: WatchOptions,
  signal: AbortSignal,
  rounds = new HostRounds(options),
): Promise<void> {
  const { engine, hostId, log, everySeconds = roundSeconds.hostWatch } = options
  const changed = new Bell()
  const onEvent = ({ labels: values }: ContainerEvent) => {
    const appId = values[labels.app]
    if (appId === undefined) rounds.seeAll()
    else rounds.see(appId)
    changed.ring()
  }
  const opened = () => {
    rounds.follow(true)
    changed.ring()
  }
  const events = async () => {
    await engine.watch({ [labels.host]: hostId }, onEvent, signal, opened).finally(() => rounds.follow(false))
  }
  await Promise.all([
    loop(events, {
      signal,
      everyMs: 500,
      onError: error => log.warn({ err: error }, 'watch: the event stream broke'),
    }),
    loop(() => rounds.round(), {
      signal,
      everyMs: everySeconds * 1000,
      onError: error => log.warn({ err: error }, 'watch: will try again'),
      bell: changed,
      gatherMs, // events come in bursts
    }),
  ])
}
