import type { Workspace } from '../../db/accounts/workspaces.ts'
import { coversResource } from '../pipeline/access.ts'
import type { Caller } from '../pipeline/authenticate.ts'
import { hostName } from './app.ts'

/** Contract 8.1. A key that is limited to certain resources sees only those of the shared applications. */
export const workspaceView = (workspace: Workspace, caller: Caller, appsDomain: string) => ({
  id: workspace.id,
  name: workspace.name,
  owner: workspace.owner_id,
  members: workspace.members.map(({ user_id, name, role, joined_at }) => ({
    id: user_id,
    name: name || null,
    group: role,
    joinedAt: joined_at.toISOString(),
  })),
  applications: workspace.apps
    .filter(app => coversResource(caller, app.id))
    .map(app => ({
      id: app.id,
      name: app.name,
      desc: app.description,
      ram: app.ram_mb,
      lang: app.language,
      domain: hostName(app, appsDomain),
      custom: app.custom_domain,
    })),
  createdAt: workspace.created_at.toISOString(),
})
