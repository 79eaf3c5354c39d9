/** What an API key may be limited to (contract 2.1). A key without a list has full access; a session has every scope. */
export const scopes = [
  'account:read',
  'apps:read',
  'apps:control',
  'apps:write',
  'apps:deploy',
  'envs:read',
  'envs:write',
  'files:read',
  'files:write',
  'snapshots:read',
  'snapshots:write',
  'databases:read',
  'databases:write',
  'databases:credentials',
  'workspaces:manage',
  'ai:chat',
  'blob:read',
  'blob:write',
] as const

export type Scope = (typeof scopes)[number]

export function isScope(text: string): text is Scope {
  return (scopes as readonly string[]).includes(text)
}

/** Whether a key's list covers a scope. `granted` null = full access; `needed` null = requires full access. */
export function covers(granted: readonly string[] | null, needed: Scope | null): boolean {
  if (granted === null) return true
  return needed !== null && granted.includes(needed)
}

/** What scopes by their first part give access to that belongs to no application or database: closed to keys that are limited to these. */
const closedToLimited: Record<string, string | undefined> = { blob: 'access objects', ai: 'use models' }

/** What a key that is limited to applications and databases cannot do with a scope; undefined: it may use the scope. */
export const closedToLimitedKeys = (scope: Scope | null): string | undefined =>
  closedToLimited[scope?.split(':')[0] ?? '']
