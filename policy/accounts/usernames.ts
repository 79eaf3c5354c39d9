import { isShownName } from '../../lib/shown-names.ts'

/** Longest name of an account, in characters. */
export const usernameLength = 24

const word = String.raw`(?:[\p{L}\p{Nd}]\p{M}*)+`
const form = new RegExp(`^${word}(?: ${word})*$`, 'u')

/**
 * A name as it is stored and compared (NFC): letters of any script, digits, single spaces between words, 1 to 24 characters.
 * Null when a text is no such name.
 */
export function username(text: string): string | null {
  const name = text.normalize('NFC')
  return form.test(name) && isShownName(name) && [...name].length <= usernameLength ? name : null
}
