import { isShownName } from '../../lib/shown-names.ts'

/** Max length of an account's name, in characters. */
export const usernameLength = 24

const word = String.raw`(?:[\p{L}\p{Nd}]\p{M}*)+`
const form = new RegExp(`^${word}(?: ${word})*$`, 'u')

/**
 * A name as it is stored and compared (NFC): letters of any script, digits, single spaces between words, 1 to 24 characters.
 * Null for other texts.
 */
export function username(text: string): string | null {
  const name = text.normalize('NFC')
  return form.test(name) && isShownName(name) && [...name].length <= usernameLength ? name : null
}
