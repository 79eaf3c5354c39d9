import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../../db/database.ts'
import { findS3Credential } from '../../db/objects/s3-credentials.ts'
import type { Plans } from '../../policy/accounts/plans.ts'
import { s3Secret } from '../../policy/objects/s3-credentials.ts'
import { S3Error } from '../../policy/s3/s3-errors.ts'
import { credentialBelievedMs } from '../../policy/timeouts.ts'
import { type Caller, callerOf } from '../pipeline/authenticate.ts'
import { KeyGuesses } from '../pipeline/key-guesses.ts'
import { type Scope, signingKey } from './signature/signing.ts'

/** The account behind an access key id, and the keys that its signatures are verified with. */
interface S3Credential {
  caller: Caller
  signingKey(scope: Scope): Buffer
}

/** Finds the credential of an access key id. Throws InvalidAccessKeyId for one that is unknown, revoked, expired, or of a blocked account. */
export type FindCredential = (accessKeyId: string, address: string) => Promise<S3Credential>

interface Options {
  db: Db
  masterKey: string
  plans: Plans
  /** Processes that share the port and so the requests of one address. */
  processes?: number
}

/** Most requests are of one day and region, for which the key is derived once. */
function signingKeysOf(secretAccessKey: string): S3Credential['signingKey'] {
  const keys = new Map<string, Buffer>()
  return scope => {
    const name = JSON.stringify(scope)
    const key = keys.get(name) ?? signingKey(secretAccessKey, scope)
    keys.set(name, key)
    return key
  }
}

const idForm = /^BRTH[A-Z0-9]{16}$/

/**
 * Looks credentials up once for all concurrent requests that name them, and believes the answer for half a second, so that a revoked key is
 * dead within one. An address that keeps naming unknown ids is slowed down as one that guesses API keys (contract 1.16).
 */
export function s3Credentials({ db, masterKey, plans, processes }: Options): FindCredential {
  const secret = s3Secret(masterKey)
  const guesses = new KeyGuesses(processes)
  let cached = new Map<string, Promise<S3Credential | undefined>>()
  let cachedSince = 0

  async function read(accessKeyId: string): Promise<S3Credential | undefined> {
    const row = await findS3Credential(db, secret, accessKeyId)
    return row && { caller: callerOf(row.user, 'key', plans), signingKey: signingKeysOf(row.secretAccessKey) }
  }

  function lookUp(accessKeyId: string): Promise<S3Credential | undefined> {
    const now = performance.now()
    if (now - cachedSince > credentialBelievedMs) {
      cached = new Map()
      cachedSince = now
    }
    const generation = cached
    const earlier = generation.get(accessKeyId)
    if (earlier) return earlier
    const credential = read(accessKeyId)
    generation.set(accessKeyId, credential)
    credential.then(
      value => value || generation.delete(accessKeyId),
      () => generation.delete(accessKeyId),
    )
    return credential
  }

  return async (accessKeyId, address) => {
    const now = Date.now()
    const isLookedUp = idForm.test(accessKeyId) && !guesses.refuses(address, accessKeyId, now)
    const credential = isLookedUp ? await lookUp(accessKeyId) : undefined
    if (credential) return credential
    guesses.miss(address, isLookedUp ? accessKeyId : undefined, now)
    const waitMs = guesses.waitOf(address, now)
    if (waitMs > 0) await sleep(waitMs)
    throw new S3Error('InvalidAccessKeyId', undefined, { AWSAccessKeyId: accessKeyId })
  }
}
