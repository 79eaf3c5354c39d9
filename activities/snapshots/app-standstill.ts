import { ignoreError } from '../../lib/async/ignore-error.ts'
import { appOf, type ContainerHost, type ContainerState, type ListedContainer, labels } from '../containers/port.ts'
import type { AppTurns } from '../steps/app-turns.ts'

/** A program that can be made to stand still, as a snapshot's last look at its files needs it. */
export interface Standstill {
  /** Waits for the application's turn and freezes its containers. Rejects, with everything going on, when one cannot be frozen. */
  pause(): Promise<void>
  /** Everything goes on, and the turn is over. Nothing paused is success. */
  resume(): Promise<void>
}

export interface StandstillHost {
  engine: ContainerHost
  turns: AppTurns
  hostId: string
}

/**
 * The application's turn is held from pause to resume, so that nobody stops, replaces or writes to what stands still: a paused
 * container cannot be stopped. What is still paused when this process dies is woken by the next one (`wakePaused`).
 */
export function standstill(host: StandstillHost, appId: string): Standstill {
  const running = () => containers(host, appId, 'running')
  let over: (() => void) | null = null
  return {
    pause: () =>
      new Promise((stands, refuse) => {
        const turn = host.turns(appId, async () => {
          try {
            for (const { name } of await running()) await host.engine.pause(name)
          } catch (error) {
            await wake(host, appId).catch(ignoreError('the host watch tries again'))
            return refuse(error)
          }
          await new Promise<void>(end => {
            over = end
            stands()
          })
        })
        turn.catch(refuse) // there was no turn: this process may not act as its host now
      }),
    async resume() {
      const end = over
      over = null
      if (end) await wake(host, appId).finally(end)
    },
  }
}

/**
 * Unpauses what no snapshot holds: the process that paused it has died, or somebody has paused it by hand, a build too. `each` runs
 * the work for one application, so that its failure holds up no other.
 */
export async function wakePaused(
  host: StandstillHost,
  present: readonly ListedContainer[],
  each: (appId: string, act: () => Promise<void>) => Promise<unknown> = (_, act) => act(),
): Promise<void> {
  const paused = present.filter(({ status }) => status === 'paused')
  const builds = paused.filter(container => container.labels[labels.role] === 'build')
  for (const build of builds) await each(appOf(build), () => host.engine.unpause(build.name))
  for (const appId of new Set(paused.map(appOf)))
    if (appId && !host.turns.busy(appId)) await each(appId, () => host.turns(appId, () => wake(host, appId)))
}

async function wake(host: StandstillHost, appId: string): Promise<void> {
  for (const { name } of await containers(host, appId, 'paused')) await host.engine.unpause(name)
}

async function containers(
  { engine, hostId }: StandstillHost,
  appId: string,
  status: ContainerState['status'],
): Promise<ListedContainer[]> {
  const found = await engine.list({ [labels.host]: hostId, [labels.app]: appId, [labels.role]: 'app' })
  return found.filter(container => container.status === status)
}
