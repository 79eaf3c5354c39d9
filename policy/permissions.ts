/** What each role may do to an application (contract 2). The owner may do everything. */
export const roles = ['view', 'manager', 'maintain', 'admin', 'owner'] as const

export type Role = (typeof roles)[number]

/** The least role that has a permission; every role further right in `roles` has it too. */
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
