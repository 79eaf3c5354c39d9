import type { AppRow } from '../../db/apps/apps.ts'
import type { Db } from '../../db/database.ts'
import type { DatabaseRow } from '../../db/databases/database-rows.ts'
import { findHost } from '../../db/hosts/hosts.ts'
import { CodedError } from '../../policy/errors.ts'
import { hostReadKey } from '../../policy/keys.ts'
import { assertNotLost } from '../pipeline/access.ts'

export interface HostRequest {
  /** Default: GET. */
  method?: 'GET' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below `/apps/<id>/` or `/databases/<id>/`. */
  path: string
  body?: Uint8Array
  /** Until the answer starts, in milliseconds; with `whole` until it has ended. */
  deadlineMs: number
  whole?: boolean
}

/** What a host serves reads of. */
export type Hosted = AppRow | DatabaseRow

/**
 * One request to the server of the host of an application or a database. Throws CLUSTER_UNAVAILABLE when the host is offline or cannot be reached, and
 * CLUSTER_TIMEOUT past the deadline; refusals of the host are responses.
 */
export type HostCall = (hosted: Hosted, request: HostRequest) => Promise<Response>

/** Calls over HTTP, with each host's own key. */
export function hostCall(db: Db, masterKey: string): HostCall {
  const keys = new Map<string, string>()

  function keyOf(hostId: string): string {
    const key = keys.get(hostId) ?? hostReadKey(masterKey, hostId)
    keys.set(hostId, key)
    return key
  }

  return async (hosted, { method, path, body, deadlineMs, whole }) => {
    const folder = 'engine' in hosted ? 'databases' : 'apps'
    assertNotLost(hosted)
    const host = await findHost(db, hosted.host_id)
    if (!host?.reachable || !host.read_url) throw new CodedError('CLUSTER_UNAVAILABLE')
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(new DOMException('too late', 'TimeoutError')), deadlineMs)
    try {
      return await fetch(`${host.read_url}/${folder}/${hosted.id}/${path}`, {
        method,
        body,
        headers: { Authorization: `Bearer ${keyOf(host.id)}` },
        signal: deadline.signal,
        redirect: 'error',
      })
    } catch (error) {
      throw hostFailure(error)
    } finally {
      whole ? timer.unref() : clearTimeout(timer)
    }
  }
}

/** The code for a failed connection to a host. */
export function hostFailure(error: unknown): CodedError {
  return new CodedError((error as Error).name === 'TimeoutError' ? 'CLUSTER_TIMEOUT' : 'CLUSTER_UNAVAILABLE')
}
