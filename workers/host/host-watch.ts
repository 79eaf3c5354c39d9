import type { Logger } from 'pino'
import { type ContainerEvent, type ContainerHost, labels } from '../../activities/containers/port.ts'
import { Bell, type LoopOptions, loop } from '../../lib/async/loop.ts'
import { roundSeconds } from '../../policy/rounds.ts'
import { type AppRoundsOptions, HostRounds } from './host-rounds.ts'
import type { Rounds } from './watch/rounds.ts'

export interface WatchOptions extends AppRoundsOptions {
  everySeconds?: number
}

/** Records changes of containers outside of operations, until the signal aborts: exits, reboots, strays. */
export async function watchHost(
  options: WatchOptions,
  signal: AbortSignal,
  rounds = new HostRounds(options),
): Promise<void> {
  const { engine, hostId, log, everySeconds = roundSeconds.hostWatch } = options
  const onEvent = ({ labels: values }: ContainerEvent): boolean => {
    if (values[labels.database] !== undefined) return false
    const appId = values[labels.app]
    if (appId === undefined) rounds.seeAll()
    else rounds.see(appId)
    return true
  }
  const watched = { engine, log, rounds, filter: { [labels.host]: hostId }, onEvent, everyMs: everySeconds * 1000 }
  await watchRounds(watched, signal)
}

export interface WatchedRounds {
  engine: Pick<ContainerHost, 'watch'>
  log: Logger
  rounds: Pick<Rounds, 'follow'> & { round(): Promise<unknown> }
  /** Labels of the containers whose events are followed. */
  filter: Record<string, string>
  /** Receives each event; true = a round must look at it now. */
  onEvent(event: ContainerEvent): boolean
  /** Pause between rounds, in milliseconds; may be computed after each. */
  everyMs: LoopOptions['everyMs']
}

const gatherMs = 100

/** Runs rounds until the signal aborts: with the engine's events, and periodically. */
export async function watchRounds(
  { engine, log, rounds, filter, onEvent, everyMs }: WatchedRounds,
  signal: AbortSignal,
): Promise<void> {
  const changed = new Bell()
  const opened = () => {
    rounds.follow(true)
    changed.ring()
  }
  const heard = (event: ContainerEvent) => {
    if (onEvent(event)) changed.ring()
  }
  const events = () => engine.watch(filter, heard, signal, opened).finally(() => rounds.follow(false))
  await Promise.all([
    loop(events, { signal, everyMs: 500, onError: error => log.warn({ err: error }, 'watch: the event stream broke') }),
    loop(() => rounds.round(), {
      signal,
      everyMs,
      onError: error => log.warn({ err: error }, 'watch: will try again'),
      bell: changed,
      gatherMs, // events come in bursts
    }),
  ])
}
