import { covers, type Scope } from './scopes.ts'

/** Roles that the owner of a workspace can give to members. */
export const memberRoles = ['view', 'manager', 'maintain', 'admin'] as const

export type MemberRole = (typeof memberRoles)[number]

/** What each role may do to an application (contract 2.4). The owner may do everything. */
export const roles = [...memberRoles, 'owner'] as const

export type Role = (typeof roles)[number]

/** The lowest role that has a permission; every later role in `roles` has it too. */
export const permissions = {
  read: 'view',
  control: 'manager',
  view_deployment: 'manager',
  commit: 'maintain',
  files: 'maintain',
  secret_files: 'admin',
  dns: 'maintain',
  purge_cache: 'maintain',
  envs: 'admin',
  snapshots: 'admin',
  deploy_webhook: 'admin',
  custom_domain: 'admin',
  delete: 'owner',
  share: 'owner',
} as const satisfies Record<string, Role>

export type Permission = keyof typeof permissions

export function permits(role: Role, permission: Permission): boolean {
  return roles.indexOf(role) >= roles.indexOf(permissions[permission])
}

/** The scopes that a key needs to use a permission. */
export const permissionScopes = {
  read: ['apps:read'],
  control: ['apps:control'],
  view_deployment: ['apps:read'],
  commit: ['apps:deploy'],
  files: ['files:read', 'files:write'],
  secret_files: ['files:read', 'files:write'],
  dns: ['apps:read'],
  purge_cache: ['apps:write'],
  envs: ['envs:read', 'envs:write'],
  snapshots: ['snapshots:read', 'snapshots:write'],
  deploy_webhook: ['apps:deploy'],
  custom_domain: ['apps:write'],
  delete: ['apps:write'],
  share: ['workspaces:manage'],
} as const satisfies Record<Permission, readonly Scope[]>

/** Whether a key may grant a role: only when its scopes (null = all) cover everything that the role permits. */
export function mayGrant(granted: readonly string[] | null, role: Role): boolean {
  const permitted = (Object.keys(permissions) as Permission[]).filter(permission => permits(role, permission))
  return permitted.every(permission => permissionScopes[permission].every(scope => covers(granted, scope)))
}
