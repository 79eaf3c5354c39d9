import { randomInt, randomUUID } from 'node:crypto'
import { randomBytes } from '../lib/random-bytes.ts'

/** 18 decimal digits, never starting with 0: existing clients cut API keys at the first `-` and keep this part. */
export function newUserId(): string {
  return `${randomInt(1, 10)}${Array.from({ length: 17 }, () => randomInt(10)).join('')}`
}

/** 24 lower-case hex characters. */
export const newAppId = (): string => randomBytes(12).toString('hex')

/** 32 lower-case hex characters: operations, deployments, segments, sessions, keys. */
export const newId = (): string => randomBytes(16).toString('hex')

/** Id of the small body that marks an object store with its installation (activities/installation/installation.ts); no random id equals it. */
export const installationMark = '0'.repeat(32)

/** 32 characters of base64url: versions of snapshots. */
export const newVersionId = (): string => randomBytes(24).toString('base64url')

/** 32 lower-case hex characters in the layout of a version-4 UUID. */
export const newWorkspaceId = (): string => randomUUID().replaceAll('-', '')

/** Path form of application and database ids: 24 or 32 hex, optionally followed by `-<workspace id>`. */
export const resourceIdPattern = /^([a-f0-9]{24}|[a-f0-9]{32})(?:-([a-f0-9-]+))?$/

export const userIdPattern = /^[0-9]{18}$/

export const workspaceIdPattern = /^([a-f0-9]{40}|[a-f0-9]{12}4[a-f0-9]{3}[89ab][a-f0-9]{3}[a-f0-9]{12})$/

/** Share ids: 22 base62 characters. */
export const newShareId = (): string => randomBase62(22)

export const shareIdPattern = /^[0-9A-Za-z]{22}$/

export const alphabet62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Uniform characters: bytes from 248 up are discarded, so that none is more likely than another. */
export function randomBase62(length: number): string {
  let text = ''
  while (text.length < length)
    for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += alphabet62[byte % 62]
  return text
}
