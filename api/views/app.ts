import type { AppRow } from '../../db/apps/apps.ts'
import { problemOf } from '../../policy/apps/app-problems.ts'
import { healthOf } from '../../policy/hosts/health-checks.ts'

/** `<sub>.<apps_domain>`, or null for an application without address. */
export function hostName(app: AppRow, appsDomain: string): string | null {
  return app.subdomain && `${app.subdomain}.${appsDomain}`
}

/** Contract 4.1. */
export const appView = (app: AppRow, appsDomain: string) => ({
  id: app.id,
  name: app.name,
  desc: app.description ?? undefined,
  owner: app.owner_id,
  cluster: app.host_id,
  ram: app.ram_mb,
  language: app.language,
  domain: hostName(app, appsDomain),
  custom: app.custom_domain,
  created_at: app.created_at.toISOString(),
  variables: { version: app.variables_version, current: runsCurrentVariables(app) },
  health: healthOf(app),
  problem: problemOf(app),
})

/** A stopped application gets the current variables when it starts. A container that predates variables runs with none. */
const runsCurrentVariables = (app: AppRow): boolean =>
  app.status !== 'running' || (app.variables_running ?? 0) === app.variables_version

/** The item of `GET /v2/users/me` (contract 3.2). */
export const appSummaryView = (app: AppRow, appsDomain: string) => ({
  id: app.id,
  name: app.name,
  desc: app.description ?? undefined,
  ram: app.ram_mb,
  lang: app.language,
  domain: hostName(app, appsDomain),
  custom: app.custom_domain,
  cluster: app.host_id,
  created_at: app.created_at.toISOString(),
})

/** The answer of a creation (contract 4.4). */
export const createdView = (app: AppRow, appsDomain: string) => ({
  id: app.id,
  name: app.name,
  description: app.description ?? undefined,
  lang: app.language,
  ram: app.ram_mb,
  cpu: app.cpu,
  language: { name: app.language, version: app.version },
  cluster: app.host_id,
  domain: hostName(app, appsDomain) ?? undefined,
  subdomain: app.subdomain ?? undefined,
})
