import { isCancellation, patched, sleep } from '@temporalio/workflow'
import type { Release } from '../activities/releases/release.ts'
import { routeStands } from './lane-steps.ts'

/**
 * For a change of routes that may fail: the proxy's table is a copy, and the route keeper repairs it as soon as the proxy answers, so
 * an unreachable proxy undoes nothing. Returns false. A cancellation is rethrown.
 */
export function leftToKeeper(error: unknown): false {
  if (isCancellation(error) || !patched('routes-left-to-keeper')) throw error
  return false
}

const againSeconds = 5
/** No other operation of the application starts meanwhile. */
const waitSeconds = 60

/** Whether the proxy sends requests to the serving version; false after about a minute in which it could not be reached. */
export async function awaitRoute(release: Release): Promise<boolean> {
  for (const deadline = Date.now() + waitSeconds * 1000; Date.now() < deadline; await sleep(againSeconds * 1000)) {
    if (await routeStands(release).then(() => true, leftToKeeper)) return true
  }
  return false
}
