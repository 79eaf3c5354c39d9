import { z } from 'zod'
import { findWorkspace } from '../../../db/accounts/workspaces.ts'
import { type AppRow, listApps } from '../../../db/apps/apps.ts'
import { mapConcurrently } from '../../../lib/async/concurrently.ts'
import { CodedError } from '../../../policy/errors.ts'
import { healthOf } from '../../../policy/hosts/health-checks.ts'
import { workspaceIdPattern } from '../../../policy/ids.ts'
import { currentFigures } from '../../hosts/current-figures.ts'
import { coversResource } from '../../pipeline/access.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { endpoint } from '../../pipeline/endpoint.ts'
import { flag } from '../../pipeline/fields.ts'
import type { Services } from '../../services.ts'
import { rawStatsView, statsView, totalsView } from '../../views/stats.ts'
import { appStats, totalStats } from '../schemas.ts'

/** Contract 4.11: while its host does not answer an application is shown as unreachable, never as stopped. */
export const getAppStatus = endpoint({
  name: 'apps.status',
  method: 'GET',
  path: '/v2/apps/{appId}/status',
  summary: 'Show the current resource usage of an application',
  auth: { scope: 'apps:read', permission: 'read' },
  query: z.object({ rawData: flag }),
  response: appStats,
  async handle({ app, query }, services) {
    const figures = await currentFigures(app, services)
    // What its host found last says nothing about a program that cannot be seen.
    const health = figures.status === 'unreachable' ? null : app.health
    return { ...(query.rawData ? rawStatsView(figures) : statsView(figures)), health: healthOf({ ...app, health }) }
  },
})

/** Contract 4.12: totals over the caller's applications, or those of a workspace. */
export const listAppStatuses = endpoint({
  name: 'apps.status.all',
  method: 'GET',
  path: '/v2/apps/status',
  summary: 'Show the current resource usage of all applications',
  auth: { scope: 'apps:read' },
  query: z.object({
    workspaceId: z.string({ error: 'UNKNOWN_WORKSPACE' }).regex(workspaceIdPattern, 'UNKNOWN_WORKSPACE').optional(),
    rawData: flag,
  }),
  response: totalStats,
  errors: ['APP_NOT_FOUND', 'UNKNOWN_WORKSPACE'],
  async handle({ caller, query }, services) {
    const apps = (await appsOf(caller, query.workspaceId, services)).filter(app => coversResource(caller, app.id))
    if (apps.length === 0) throw new CodedError('APP_NOT_FOUND')
    const figures = await mapConcurrently(apps, 32, async app => ({
      id: app.id,
      figures: await currentFigures(app, services),
    }))
    return query.rawData ? totalsView(figures, rawStatsView) : totalsView(figures, statsView)
  },
})

/** The caller's own applications, or those of a workspace that the caller is in. Throws UNKNOWN_WORKSPACE. */
async function appsOf({ user }: Caller, workspaceId: string | undefined, { db }: Services): Promise<AppRow[]> {
  if (workspaceId === undefined) return listApps(db, user.id)
  const workspace = await findWorkspace(db, user.id, workspaceId)
  if (!workspace) throw new CodedError('UNKNOWN_WORKSPACE')
  return workspace.apps
}
