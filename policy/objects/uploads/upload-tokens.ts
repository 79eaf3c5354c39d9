import { hkdfSync } from 'node:crypto'
import { checkLength, endsWithCheck, hexCheck } from '../../accounts/credential-check.ts'
import { alphabet62 } from '../../ids.ts'
import { deriveKey } from '../../keys.ts'

/** The form of an upload token, distinct from API keys and session tokens (contract 7.38). */
const form = /^bup_[0-9A-Za-z]{64}$/

export const isUploadToken = (credential: string): boolean => form.test(credential)

export const uploadTokenSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'upload-tokens')

/** The text of a token, derived from the secret and the id: a repeated request gets the same token, although it is not stored. */
export function uploadToken(secret: Buffer, id: string): string {
  const random = earlierUploadToken(secret, id).slice(0, -checkLength)
  return random + hexCheck(secret, random)
}

/** Whether this installation may have issued a token; false for tokens without a check, which are older. */
export const isIssuedToken = endsWithCheck

/** The text of an older token, without a check. */
export function earlierUploadToken(secret: Buffer, id: string): string {
  const bytes = new Uint8Array(hkdfSync('sha256', secret, Buffer.alloc(0), id, 128))
  const fair = [...bytes].filter(byte => byte < 248) // higher values would make some characters more likely
  return `bup_${fair
    .slice(0, 64)
    .map(byte => alphabet62[byte % 62])
    .join('')}`
}

/** Fields that a token fixes for its uploads. The uploader may choose absent fields, except `private`. */
export interface UploadPins {
  name?: string
  prefix?: string
  private?: boolean
  security_hash?: boolean
  expire?: string
  max_size?: number
  allowed_extensions?: string[]
  metadata?: Record<string, string>
}

/** Max bytes of pins as JSON text. */
export const pinsBytes = 2048

/** Requested fields that a token may pin. */
export interface Pinnable {
  name?: string
  prefix?: string
  private?: boolean
  security_hash?: boolean
  expire?: string
  metadata?: Record<string, string>
}

/**
 * An upload with the pins of its token: pinned fields override requested ones. Without a pinned name the object's name gets a random
 * part, so that no uploader can take or replace a name of the account. `max_size` and `allowed_extensions` are checked with the file.
 */
export function withPins<T extends Pinnable>(requested: T, pins: UploadPins): T {
  const { max_size, allowed_extensions, private: visibility, ...fixed } = pins
  const upload: T = { ...requested, ...fixed }
  delete upload.private
  if (visibility !== undefined) upload.private = visibility
  if (pins.name === undefined) upload.security_hash = true
  return upload
}
