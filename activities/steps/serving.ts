import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { finishOperation } from '../../db/operations/operations.ts'
import type { Release, StartedContainer } from '../releases/release.ts'
import type { Fence } from './claims.ts'

type Serving = Pick<Release, 'appId' | 'number'>

export function startOf(release: number, started: StartedContainer): apps.RecordedStart {
  return { ...started, release, startedAt: new Date(started.startedAt) }
}

/** Records that the container of a release serves, and that its operation has succeeded. */
export async function recordServing(
  trx: Db,
  operationId: string,
  { appId, number }: Serving,
  started: StartedContainer,
): Promise<void> {
  await apps.recordDesiredState(trx, appId, 'running')
  await apps.recordStarted(trx, appId, startOf(number, started))
  await finishOperation(trx, operationId, { state: 'success' })
}

/**
 * `recordServing` for a container that listens where it did before its restart: the proxy's route leads there, so its host records the
 * outcome itself. Resolves to false, and records nothing, when the route must change first.
 */
export async function recordServingAgain(
  fence: Fence,
  operationId: string,
  release: Serving,
  started: StartedContainer,
): Promise<boolean> {
  const { appId, number } = release
  let recorded = false
  await fence({ id: operationId, appId }, async trx => {
    if (!(await apps.hasPlace(trx, appId, startOf(number, started)))) return
    await recordServing(trx, operationId, release, started)
    recorded = true
  })
  return recorded
}
