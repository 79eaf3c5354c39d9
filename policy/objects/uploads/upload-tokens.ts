import { hkdfSync } from 'node:crypto'
import { checkLength, endsWithCheck, hexCheck } from '../../accounts/credential-check.ts'
import { alphabet62 } from '../../ids.ts'
import { deriveKey } from '../../keys.ts'

/** Distinguishes it from API keys and session tokens (contract 7.38). */
const form = /^bup_[0-9A-Za-z]{64}$/

export const isUploadToken = (credential: string): boolean => form.test(credential)

export const uploadTokenSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'upload-tokens')

/** The text of a token: whoever has the secret can say it again, so that a repeated request is answered without keeping it. */
export function uploadToken(secret: Buffer, id: string): string {
  const random = earlierUploadToken(secret, id).slice(0, -checkLength)
  return random + hexCheck(secret, random)
}

/** Whether this installation may have issued a token; those from before there was a check are none of these. */
export const isIssuedToken = endsWithCheck

/** The text of a token from before there was a check in it. */
export function earlierUploadToken(secret: Buffer, id: string): string {
  const bytes = new Uint8Array(hkdfSync('sha256', secret, Buffer.alloc(0), id, 128))
  const fair = [...bytes].filter(byte => byte < 248) // from there on some characters would be likelier than others
  return `bup_${fair
    .slice(0, 64)
    .map(byte => alphabet62[byte % 62])
    .join('')}`
}

/** What whoever minted a token fixes for its uploads; a field that is absent is the uploader's choice, but `private`. */
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

/** Pins take at most so many bytes as JSON text. */
export const pinsBytes = 2048

/** What an uploader asks for, as far as a token may fix it. */
export interface Pinnable {
  name?: string
  prefix?: string
  private?: boolean
  security_hash?: boolean
  expire?: string
  metadata?: Record<string, string>
}

/**
 * An upload as its token has it: what is pinned stands whatever was asked for. Without a pinned name the object's name gets a
 * random part, so that no uploader takes, or replaces, a name of the account. `max_size` and `allowed_extensions` are for whoever
 * sees the file.
 */
export function pinned<T extends Pinnable>(asked: T, pins: UploadPins): T {
  const { max_size, allowed_extensions, private: visibility, ...fixed } = pins
  const upload: T = { ...asked, ...fixed }
  delete upload.private
  if (visibility !== undefined) upload.private = visibility
  if (pins.name === undefined) upload.security_hash = true
  return upload
}
