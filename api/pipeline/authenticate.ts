import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CredentialRow, findUserByKeyHash, findUserBySession } from '../../db/accounts/accounts.ts'
import type { Db } from '../../db/database.ts'
import { findUploadToken, type UploadToken } from '../../db/objects/uploads/upload-tokens.ts'
import { checkKey, credentialHash, issuedTo } from '../../policy/accounts/credentials.ts'
import { type Plan, type Plans, planOf } from '../../policy/accounts/plans.ts'
import type { Scope } from '../../policy/accounts/scopes.ts'
import { readSession, sessionKey } from '../../policy/accounts/sessions.ts'
import { CodedError, type ErrorCode } from '../../policy/errors.ts'
import { isIssuedToken, isUploadToken, uploadTokenSecret } from '../../policy/objects/uploads/upload-tokens.ts'
import { credentialBelievedMs } from '../../policy/timeouts.ts'
import type { Exchange } from '../http/exchange.ts'
import { EarlierCredentials } from './earlier-credentials.ts'
import { KeyGuesses } from './key-guesses.ts'

/** Who sends a request, and with which rights. Null lists mean no restriction. */
export interface Caller {
  user: CredentialRow
  kind: 'key' | 'session' | 'upload-token'
  scopes: Scope[] | null
  resources: string[] | null
  /** Prefixes of object names that the credential is limited to. */
  prefixes: string[] | null
  /** What an upload token pins; undefined for other credentials. */
  uploadToken?: UploadToken
  plan: Plan
  planName: string
}

/** The credential is valid but its account is blocked, which most endpoints do not reveal. */
class AccountBlocked extends CodedError {
  constructor() {
    super('ACCESS_DENIED')
  }
}

/** Resolves to the caller of a request. Throws ACCESS_DENIED. */
export type Authenticate = (request: IncomingMessage, address: string) => Promise<Caller>

interface AuthenticatorOptions {
  db: Db
  masterKey: string
  /** Checks of API keys that were issued before the root secret was rotated. */
  earlierKeyChecks?: readonly Buffer[]
  plans: Plans
  /** Processes that share the port and so the requests of one address. */
  processes?: number
}

/** Authentication by API key or session token, with or without `Bearer` (contract 1.4). */
export function authenticator(options: AuthenticatorOptions): Authenticate {
  const { db, masterKey, earlierKeyChecks = [], plans, processes } = options
  const keyChecks = [checkKey(masterKey), ...earlierKeyChecks]
  const sessionSecret = sessionKey(masterKey)
  const tokenSecret = uploadTokenSecret(masterKey)
  const earlier = new EarlierCredentials(db)
  const guesses = new KeyGuesses(processes)
  let cached = new Map<string, Promise<Caller>>()
  let cachedSince = 0

  /** What `find` finds of a credential, whose name is undefined if its form alone gave it away. Throws ACCESS_DENIED, and counts the guess. */
  async function lookedUp<T>(
    address: string,
    name: string | undefined,
    find: () => Promise<T | undefined>,
  ): Promise<T> {
    const now = Date.now()
    const caller = name !== undefined && !guesses.refuses(address, name, now) ? await find() : undefined
    if (caller) return caller
    guesses.miss(address, name, now)
    throw new CodedError('ACCESS_DENIED')
  }

  async function byKey(credential: string, address: string): Promise<Caller> {
    const hash = keyChecks.some(check => issuedTo(check, credential)) ? credentialHash(credential) : undefined
    const user = await lookedUp(address, hash?.toString('base64'), () => findUserByKeyHash(db, hash!))
    return callerOf(user, 'key', plans)
  }

  async function bySession(credential: string, address: string): Promise<Caller> {
    const session = await readSession(sessionSecret, credential)
    const user = await lookedUp(address, session?.id, () => findUserBySession(db, session!.id, session!.userId))
    return callerOf(user, 'session', plans)
  }

  async function byUploadToken(credential: string, address: string): Promise<Caller> {
    const hash =
      isIssuedToken(tokenSecret, credential) || (await earlier.mayBeToken()) ? credentialHash(credential) : undefined
    const row = await lookedUp(address, hash?.toString('base64'), () => findUploadToken(db, hash!))
    return { ...callerOf(row.user, 'upload-token', plans), uploadToken: row.token }
  }

  /** Looks a credential up once for all concurrent requests that carry it. */
  function lookUp(credential: string, address: string): Promise<Caller> {
    const earlierLookup = cached.get(credential)
    if (earlierLookup) return earlierLookup
    const caller = isUploadToken(credential)
      ? byUploadToken(credential, address)
      : credential.includes('.')
        ? bySession(credential, address)
        : byKey(credential, address)
    const generation = cached
    generation.set(credential, caller)
    // Blocked accounts stay in the cache as well: no limit counts them.
    caller.catch(refusal => refusal instanceof AccountBlocked || generation.delete(credential))
    return caller
  }

  async function refuse(refusal: unknown, address: string): Promise<never> {
    const waitMs = guesses.waitOf(address, Date.now())
    if (waitMs > 0) await sleep(waitMs)
    throw refusal
  }

  return (request, address) => {
    const credential = credentialOf(request)
    if (credential === undefined) return Promise.reject(new CodedError('ACCESS_DENIED'))
    const now = performance.now()
    if (now - cachedSince > credentialBelievedMs) {
      cached = new Map()
      cachedSince = now
    }
    return lookUp(credential, address).catch(refusal => refuse(refusal, address))
  }
}

/** The credential of exactly one `Authorization` header, 64 to 1024 characters; undefined otherwise. */
function credentialOf(request: IncomingMessage): string | undefined {
  const header = request.headers.authorization
  if (header === undefined || header.length < 64 || header.length > 1031) return undefined
  let headers = 0
  const { rawHeaders } = request
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.length === 13 && rawHeaders[i]!.toLowerCase() === 'authorization') headers++
  if (headers !== 1) return undefined
  const credential = /^bearer /i.test(header) ? header.slice(7) : header
  return credential.length >= 64 && credential.length <= 1024 && /^[\w.-]+$/.test(credential) ? credential : undefined
}

/** The caller of an endpoint. Throws ACCESS_DENIED, and ACCOUNT_BLOCKED if the endpoint declares it. */
export async function callerFor(
  { errors }: { errors?: readonly ErrorCode[] },
  { request, address }: Exchange,
  { authenticate }: { authenticate: Authenticate },
): Promise<Caller> {
  return authenticate(request, address).catch(refusal => {
    const isDeclared = refusal instanceof AccountBlocked && errors?.includes('ACCOUNT_BLOCKED')
    throw isDeclared ? new CodedError('ACCOUNT_BLOCKED') : refusal
  })
}

/** The rights of an account's credential. Throws ACCESS_DENIED for a blocked account. */
export function callerOf(user: CredentialRow, kind: Caller['kind'], plans: Plans): Caller {
  if (user.blocked_at) throw new AccountBlocked()
  const { name, plan } = planOf(plans, user, new Date())
  const { scopes, resources, prefixes } = user
  return { user, kind, scopes, resources, prefixes, plan, planName: name }
}
