import { isSignatureOf, signatureOf } from '../../../lib/signed-text.ts'
import { deriveKey } from '../../keys.ts'

export const chunkedSecret = (masterKeyHex: string): Buffer => deriveKey(masterKeyHex, 'chunked-uploads')

/** The form of a token. */
export const chunkedTokenForm = /^([0-9a-f]{32})\.([\w-]{43})$/

/** The token that Init returns and every later call sends: the id of the upload, signed for its owner. */
export function chunkedToken(secret: Buffer, ownerId: string, uploadId: string): string {
  return `${uploadId}.${signatureOf(secret, `${ownerId}/${uploadId}`)}`
}

/** The id of the upload in a token; undefined when it is malformed, forged, or another account's. */
export function readChunkedToken(secret: Buffer, ownerId: string, token: string): string | undefined {
  const [, id, signature] = chunkedTokenForm.exec(token) ?? []
  return id && signature && isSignatureOf(secret, `${ownerId}/${id}`, signature) ? id : undefined
}
