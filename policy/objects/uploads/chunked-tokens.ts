import { isSignatureOf, signatureOf } from '../../../lib/signed-text.ts'
import { deriveKey } from '../../keys.ts'

export const chunkedSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'chunked-uploads')

/** A token as it looks. */
export const chunkedTokenForm = /^([0-9a-f]{32})\.([\w-]{43})$/

/** What Init hands out and every later call names the upload by: its id, signed for its owner. */
export function chunkedToken(secret: Buffer, ownerId: string, uploadId: string): string {
  return `${uploadId}.${signatureOf(secret, `${ownerId}/${uploadId}`)}`
}

/** The id of the upload that a token names; undefined when it is malformed, changed, or another account's. */
export function readChunkedToken(secret: Buffer, ownerId: string, token: string): string | undefined {
  const [, id, signature] = chunkedTokenForm.exec(token) ?? []
  return id && signature && isSignatureOf(secret, `${ownerId}/${id}`, signature) ? id : undefined
}
