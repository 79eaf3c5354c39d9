import { createHmac } from 'node:crypto'
import { alphabet62 } from '../ids.ts'

const length = 32

/**
 * The password of a database: derived from the installation's password key, so that it is stored nowhere. A rotation adds one to its
 * generation. 32 characters of base62, which no URL escapes.
 */
export const databasePassword = (key: Buffer, databaseId: string, generation: number): string =>
  derive(key, `${databaseId}/default/${generation}`)

/** The password of the platform's own user, for engines that cannot identify a local process. It never changes. */
export const platformPassword = (key: Buffer, databaseId: string): string => derive(key, `${databaseId}/platform`)

/** Uniform characters: bytes from 248 up are discarded, so that none is more likely than another. */
function derive(key: Buffer, purpose: string): string {
  let text = ''
  for (let block = 0; text.length < length; block++)
    for (const byte of createHmac('sha512', key).update(`berth/database/${purpose}/${block}`).digest())
      if (byte < 248 && text.length < length) text += alphabet62[byte % 62]
  return text
}
