import { isCancellation, patched, sleep } from '@temporalio/workflow'
import type { Release, StartedContainer } from '../activities/release.ts'
import { switchRoute } from './lane-steps.ts'

/**
 * For a change of routes that may fail: the proxy's table is a copy, and the route keeper mends it as soon as the proxy answers, so
 * a proxy that is away undoes nothing. Resolves to false. A wish to cancel goes on.
 */
export function leftToKeeper(error: unknown): false {
  if (isCancellation(error) || !patched('routes-left-to-keeper')) throw error
  return false
}

const againSeconds = 5
const rounds = 30

/** Resolves when the proxy has the route, or after about 10 minutes without a proxy, in which no request came either. */
export async function awaitRoute(release: Release, started: Pick<StartedContainer, 'hostPort'>): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    if (await switchRoute(release, started).then(() => true, leftToKeeper)) return
    await sleep(againSeconds * 1000)
  }
}
