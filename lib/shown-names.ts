/** Control characters, line ends of every kind, and characters that change the direction of the surrounding text. */
const misleading = String.raw`\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}`
const anyMisleading = new RegExp(`[${misleading}]`, 'u')
const allMisleading = new RegExp(`[${misleading}]`, 'gu')

/** Characters that are visible on their own: no spaces, format or ignorable characters. */
const visible = /[^\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Whether a text is displayed as one line, in the order in which it was written. */
export const readsAsWritten = (text: string): boolean => !anyMisleading.test(text)

/** Whether a text can be a displayed name: it reads as written, and something of it is visible. */
export const isShownName = (text: string): boolean => readsAsWritten(text) && visible.test(text)

/** Removes the characters that mislead: for names from elsewhere that are not refused. */
export const asWritten = (text: string): string => text.replaceAll(allMisleading, '')
