import type { Logger } from 'pino'
import { appOf, type ContainerHost, type ListedContainer, labels } from '../../activities/containers/port.ts'
import type { AppLocks } from '../../activities/steps/app-locks.ts'
import * as apps from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import * as operations from '../../db/operations/operations.ts'
import { apart } from './watch/apart.ts'

export interface LeftoverOptions {
  db: Db
  engine: Pick<ContainerHost, 'remove'>
  locks: AppLocks
  log: Logger
}

/** How long a container of an old release stays: the proxy may not know yet that it no longer serves. */
const retiredMs = { withAddress: 600_000, without: 60_000 } as const

/**
 * Removes what lanes could not remove while their host was down: versions that do not serve, and builds that no operation waits for.
 * `present` was listed before `rows` were read.
 */
export async function removeLeftovers(
  options: LeftoverOptions,
  present: readonly ListedContainer[],
  rows: readonly apps.HostApp[],
): Promise<void> {
  const byId = new Map(rows.map(row => [row.id, row]))
  for (const container of present) {
    const app = byId.get(appOf(container))
    if (!app) continue
    if (container.labels[labels.role] === 'build')
      await apart(options.log, { appId: app.id }, () => removeBuild(options, container))
    else if (String(app.release) !== container.labels[labels.release])
      await apart(options.log, { appId: app.id }, () => removeRetired(options, container, app.id))
  }
}

/** Removes a version that a deploy has replaced, or that never served. */
async function removeRetired({ db, engine, locks, log }: LeftoverOptions, container: ListedContainer, appId: string) {
  const app = await apps.loadApp(db, appId)
  if (!app || app.release === 0 || String(app.release) === container.labels[labels.release]) return
  const retainedMs = app.subdomain ? retiredMs.withAddress : retiredMs.without
  if (Date.now() - (app.started_at?.getTime() ?? 0) < retainedMs || (await operations.changesRelease(db, app.id)))
    return
  log.warn({ container: container.name }, 'watch: removing a container of a release that does not serve')
  await locks(app.id, () => engine.remove(container.name))
}

/**
 * Removes a build whose operation has ended, so that nothing starts it again. It is removed by its id: another build may have got its
 * name since it was listed.
 */
async function removeBuild({ db, engine, log }: LeftoverOptions, container: ListedContainer): Promise<void> {
  const { [labels.app]: appId = '', [labels.release]: release } = container.labels
  if (await operations.isUnderWay(db, appId, Number(release))) return
  log.warn({ container: container.name }, 'watch: removing a build that no operation waits for')
  await engine.remove(container.id)
}
