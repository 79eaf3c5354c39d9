import type { Owner } from '../../lib/folders/owner.ts'

/** Request to fetch exactly one commit of one branch, shallow. */
export interface FetchRequest {
  url: string
  branch: string
  /** 40 hex digits; the commit of the push, even when the branch has moved on. */
  commit: string
  /** Password over http for private repositories; never in an argument, a log or an error. */
  token: string | null
  /** Empty folder that receives the files, without `.git`. */
  folder: string
  /** User and group of the files, where the process may choose them. */
  owner: Owner | null
  maxBytes: number
  timeoutSeconds: number
  /** Servers (`host:port`) in private ranges that the operator allows. */
  allowedHosts: readonly string[]
}

/** Codes of permanent failures; everything else may be retried. */
export type FetchRefusal = 'AUTHENTICATION_REQUIRED' | 'INVALID_BRANCH' | 'CLONE_FAILED' | 'REPOSITORY_TOO_LARGE'

export class FetchRefused extends Error {
  override name = 'FetchRefused'
  constructor(
    readonly code: FetchRefusal,
    message: string,
  ) {
    super(message)
  }
}

/** Git servers over http(s). Rejects with `FetchRefused`, or with an Error that may be transient. */
export interface Git {
  fetch(
    request: FetchRequest,
    onProgress: (line: string) => void,
    signal: AbortSignal,
  ): Promise<{ files: number; bytes: number }>
}
