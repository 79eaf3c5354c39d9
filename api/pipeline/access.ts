import { findSharedApp } from '../../db/accounts/workspace-apps.ts'
import { type AppRow, findApp } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import { failedCreation } from '../../db/operations/operations.ts'
import { type Permission, permits, type Role } from '../../policy/accounts/permissions.ts'
import { covers, type Scope } from '../../policy/accounts/scopes.ts'
import { lostWith } from '../../policy/apps/app-problems.ts'
import { ApiError, type ErrorCode } from '../../policy/errors.ts'
import { resourceIdPattern } from '../../policy/ids.ts'
import type { Exchange } from '../http/call.ts'
import { type Authenticate, type Caller, callerFor } from './authenticate.ts'

/** Who may call an endpoint. `scope: null` needs a key with full access; `permission` loads the application of the path. */
export type Auth = 'public' | 'session' | ScopeAuth

export interface ScopeAuth {
  scope: Scope | null
  permission?: Permission
  /** This scope does as well. */
  orScope?: Scope
  /** An upload token does as well. */
  uploadToken?: true
}

/**
 * Throws ACCESS_DENIED for a key on a session route, MISSING_SCOPE for a key without the scope, RESOURCE_NOT_ALLOWED for a key of
 * certain applications on objects, UPLOAD_TOKEN_NOT_ALLOWED for an upload token elsewhere than on upload routes.
 */
export function checkScope(caller: Caller, auth: Exclude<Auth, 'public'>): void {
  if (caller.kind === 'upload-token') {
    if (auth === 'session' || !auth.uploadToken) throw new ApiError('UPLOAD_TOKEN_NOT_ALLOWED')
  } else if (auth === 'session') {
    if (caller.kind !== 'session')
      throw new ApiError('ACCESS_DENIED', 'This needs a session token; an API key does not do.')
  } else if (!covers(caller.scopes, auth.scope) && !(auth.orScope && covers(caller.scopes, auth.orScope))) {
    throw new ApiError(
      'MISSING_SCOPE',
      auth.scope ? `The API key lacks the scope ${auth.scope}.` : 'This needs a key with full access.',
    )
  } else if (caller.resources !== null && auth.scope?.startsWith('blob:'))
    throw new ApiError('RESOURCE_NOT_ALLOWED', 'A key that is limited to certain applications has no objects.')
}

/** What an endpoint is about, when the caller may call it; undefined when that is no application. Throws as `checkScope` and `accessApp` do. */
export async function accessOf(
  auth: Exclude<Auth, 'public'>,
  { path }: Pick<Exchange, 'path'>,
  { db }: { db: Db },
  caller: Caller,
): Promise<Access | undefined> {
  checkScope(caller, auth)
  if (auth === 'session' || !auth.permission) return undefined
  return accessApp(db, caller, path.appId ?? '', auth.permission)
}

/** So long a body may take before its caller is looked at again, in milliseconds: what is revoked is dead within a second. */
const lookAgainMs = 1000

/**
 * To be asked once the body is there: where it took long, a caller who is let in no more, or has lost the right, is refused as if the
 * request came only now. Throws as the admission does.
 */
export async function assertStillLetIn(
  { auth, errors }: { auth: Auth; errors?: readonly ErrorCode[] },
  exchange: Exchange,
  services: { db: Db; authenticate: Authenticate },
): Promise<void> {
  if (auth === 'public' || performance.now() - exchange.startedAt <= lookAgainMs) return
  await accessOf(auth, exchange, services, await callerFor({ errors }, exchange, services))
}

/**
 * The application that a path names, when the caller may do this to it: an own one, or one that is shared with the caller in the
 * workspace of the path; without one there, in any, and then the best role counts. Malformed, missing and foreign ids are the
 * same APP_NOT_FOUND, found out by the same questions; throws RESOURCE_NOT_ALLOWED and PERMISSION_DENIED too.
 */
export async function accessApp(db: Db, caller: Caller, idInPath: string, permission: Permission): Promise<Access> {
  const [, appId, workspaceId] = resourceIdPattern.exec(idInPath) ?? []
  if (!appId) throw new ApiError('APP_NOT_FOUND')
  if (!mayTouch(caller, appId)) throw new ApiError('RESOURCE_NOT_ALLOWED')
  const own = workspaceId === undefined ? await ownApp(db, caller, appId) : undefined
  const found = own ?? (await findSharedApp(db, caller.user.id, appId, workspaceId ?? null))
  if (!found) throw new ApiError('APP_NOT_FOUND', await whyTakenBack(db, caller, appId))
  if (!permits(found.role, permission)) throw new ApiError('PERMISSION_DENIED')
  return found
}

/** For the owner of an application that could not be brought up: why it is gone. Undefined for everything else. */
async function whyTakenBack(db: Db, caller: Caller, appId: string): Promise<string | undefined> {
  const failure = await failedCreation(db, caller.user.id, appId)
  return failure && `The application could not be brought up and was taken back. ${failure.code}: ${failure.message}`
}

/** Whether a key limited to certain resources covers this one. */
export function mayTouch(caller: Caller, resourceId: string): boolean {
  return caller.resources === null || caller.resources.includes(resourceId)
}

/** An application, and what the caller is to it. */
export interface Access {
  app: AppRow
  role: Role
}

async function ownApp(db: Db, caller: Caller, appId: string): Promise<Access | undefined> {
  const app = await findApp(db, caller.user.id, appId)
  return app && { app, role: 'owner' }
}

/** Throws CLUSTER_UNAVAILABLE, with what to do, for an application whose files went with a forgotten host. */
export function assertNotLost({ lost_with: hostId }: Pick<AppRow, 'lost_with'>): void {
  if (hostId !== null) throw new ApiError('CLUSTER_UNAVAILABLE', lostWith(hostId))
}
