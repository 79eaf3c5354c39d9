import { findUser } from '../../db/accounts/accounts.ts'
import { findSharedApp } from '../../db/accounts/workspace-apps.ts'
import { type AppRow, findApp } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import type { DatabaseRow } from '../../db/databases/database-rows.ts'
import { findDatabase } from '../../db/databases/databases.ts'
import { failedCreation } from '../../db/operations/operations.ts'
import { type Permission, permits, type Role } from '../../policy/accounts/permissions.ts'
import { closedToLimitedKeys, covers, type Scope } from '../../policy/accounts/scopes.ts'
import { lostWith } from '../../policy/apps/app-problems.ts'
import { databaseLostWith } from '../../policy/databases/database-problems.ts'
import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import { resourceIdPattern } from '../../policy/ids.ts'
import type { Exchange } from '../http/exchange.ts'
import { type Authenticate, type Caller, callerFor } from './authenticate.ts'

/**
 * Who may call an endpoint. `scope: null` requires a key with full access; `permission` loads the application of the path, `database`
 * its database.
 */
export type Auth = 'public' | 'session' | ScopeAuth

export interface ScopeAuth {
  scope: Scope | null
  permission?: Permission
  database?: true
  /** An alternative to `scope`. */
  orScope?: Scope
  /** True: upload tokens are accepted too. */
  uploadToken?: true
}

/**
 * Throws ACCESS_DENIED for a key on a session route, MISSING_SCOPE for a key without the scope, RESOURCE_NOT_ALLOWED for what is closed
 * to a key that is limited to certain applications, UPLOAD_TOKEN_NOT_ALLOWED for an upload token on any route but those for uploads.
 */
export function checkScope(caller: Caller, auth: Exclude<Auth, 'public'>): void {
  if (caller.kind === 'upload-token') {
    if (auth === 'session' || !auth.uploadToken) throw new CodedError('UPLOAD_TOKEN_NOT_ALLOWED')
  } else if (auth === 'session') {
    if (caller.kind !== 'session')
      throw new CodedError('ACCESS_DENIED', 'This requires a session token, not an API key.')
  } else if (!covers(caller.scopes, auth.scope) && !(auth.orScope && covers(caller.scopes, auth.orScope))) {
    throw new CodedError(
      'MISSING_SCOPE',
      auth.scope ? `The API key lacks the scope ${auth.scope}.` : 'This requires a key with full access.',
    )
  } else {
    const closed = caller.resources !== null && closedToLimitedKeys(auth.scope)
    if (closed)
      throw new CodedError('RESOURCE_NOT_ALLOWED', `A key that is limited to certain applications cannot ${closed}.`)
  }
}

/** What the path names, if the caller may call the endpoint. Throws what `checkScope`, `accessApp` and `ownDatabase` throw. */
export async function accessOf(
  auth: Exclude<Auth, 'public'>,
  { path }: Pick<Exchange, 'path'>,
  { db }: { db: Db },
  caller: Caller,
): Promise<NamedResource> {
  checkScope(caller, auth)
  if (auth === 'session') return {}
  if (auth.database) return { database: await ownDatabase(db, caller, path.databaseId ?? '') }
  if (!auth.permission) return {}
  return accessApp(db, caller, path.appId ?? '', auth.permission)
}

/** A body that took longer than this, in milliseconds, has its caller authenticated again: a revoked credential is dead within a second. */
const reauthenticateAfterMs = 1000

/**
 * To be called once the body has arrived: if that took long, a caller whose credential or right has ended by then is refused as if the
 * request had come only now. Throws what the admission throws.
 */
export async function reauthenticate(
  { auth, errors }: { auth: Auth; errors?: readonly ErrorCode[] },
  exchange: Exchange,
  services: { db: Db; authenticate: Authenticate },
): Promise<void> {
  if (auth === 'public' || performance.now() - exchange.startedAt <= reauthenticateAfterMs) return
  await accessOf(auth, exchange, services, await callerFor({ errors }, exchange, services))
}

/**
 * The application that a path names, if the caller has the permission: the caller's own, or one that is shared with the caller in the
 * workspace of the path; without a workspace in the path, in any workspace, and the best role counts. Malformed, missing and foreign
 * ids are the same APP_NOT_FOUND, after the same queries. Also throws RESOURCE_NOT_ALLOWED and PERMISSION_DENIED.
 */
export async function accessApp(db: Db, caller: Caller, idInPath: string, permission: Permission): Promise<Access> {
  const [, appId, workspaceId] = resourceIdPattern.exec(idInPath) ?? []
  if (!appId) throw new CodedError('APP_NOT_FOUND')
  if (!coversResource(caller, appId)) throw new CodedError('RESOURCE_NOT_ALLOWED')
  const own = workspaceId === undefined ? await ownApp(db, caller, appId) : undefined
  const access = own ?? (await findSharedApp(db, caller.user.id, appId, workspaceId ?? null))
  if (!access) throw new CodedError('APP_NOT_FOUND', await failureOfCreation(db, caller, appId))
  if (!permits(access.role, permission)) throw new CodedError('PERMISSION_DENIED')
  return access
}

/**
 * As `accessApp`, for a caller who was admitted a while ago: to be called in the transaction that has locked the application. Throws
 * ACCESS_DENIED for an account that was blocked meanwhile.
 */
export async function accessStill(trx: Db, caller: Caller, idInPath: string, permission: Permission): Promise<Access> {
  const user = await findUser(trx, caller.user.id)
  if (!user || user.blocked_at) throw new CodedError('ACCESS_DENIED')
  return accessApp(trx, caller, idInPath, permission)
}

/**
 * The caller's database that a path names. Databases are not shared (contract 12.1), so that an id with a workspace leads nowhere.
 * Malformed, missing and foreign ids are the same DATABASE_NOT_FOUND. Also throws RESOURCE_NOT_ALLOWED.
 */
async function ownDatabase(db: Db, caller: Caller, idInPath: string): Promise<DatabaseRow> {
  const [, id, workspaceId] = resourceIdPattern.exec(idInPath) ?? []
  if (!id) throw new CodedError('DATABASE_NOT_FOUND')
  if (!coversResource(caller, id)) throw new CodedError('RESOURCE_NOT_ALLOWED')
  const database = workspaceId === undefined ? await findDatabase(db, caller.user.id, id) : undefined
  if (database) return database
  const failure = workspaceId === undefined ? await failedCreation(db, caller.user.id, id, 'database') : undefined
  throw new CodedError(
    'DATABASE_NOT_FOUND',
    failure && `The database could not be created. ${failure.code}: ${failure.message}`,
  )
}

/** Tells the owner why an application whose creation failed is missing; undefined in every other case. */
async function failureOfCreation(db: Db, caller: Caller, appId: string): Promise<string | undefined> {
  const failure = await failedCreation(db, caller.user.id, appId)
  return failure && `The application could not be started and was removed. ${failure.code}: ${failure.message}`
}

/** Whether the caller's key covers a resource; a key without a list of resources covers all. */
export function coversResource(caller: Caller, resourceId: string): boolean {
  return caller.resources === null || caller.resources.includes(resourceId)
}

/** An application, and the caller's role in it. */
export interface Access {
  app: AppRow
  role: Role
}

/** The application of a path with the caller's role, or its database. */
export type NamedResource = Partial<Access> & { database?: DatabaseRow }

async function ownApp(db: Db, caller: Caller, appId: string): Promise<Access | undefined> {
  const app = await findApp(db, caller.user.id, appId)
  return app && { app, role: 'owner' }
}

/** Throws CLUSTER_UNAVAILABLE, with what to do, for an application or database that was lost with a forgotten host. */
export function assertNotLost(hosted: Pick<AppRow, 'lost_with'> | Pick<DatabaseRow, 'lost_with' | 'engine'>): void {
  const { lost_with: hostId } = hosted
  if (hostId === null) return
  throw new CodedError('CLUSTER_UNAVAILABLE', 'engine' in hosted ? databaseLostWith(hostId) : lostWith(hostId))
}
