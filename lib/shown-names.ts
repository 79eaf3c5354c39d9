/** Control characters, ends of lines of every kind, and what turns the direction of the text around it. */
const misleading = String.raw`\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}`
const anyMisleading = new RegExp(`[${misleading}]`, 'u')
const allMisleading = new RegExp(`[${misleading}]`, 'gu')

/** What leaves a mark where it is shown: neither a space nor one of the characters that are there only for others. */
const visible = /[^\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Whether a text is shown as one line that reads as it was written. */
export const readsAsWritten = (text: string): boolean => !anyMisleading.test(text)

/** Whether a text can be the name of something that people see: it reads as it was written, and there is something to see. */
export const isShownName = (text: string): boolean => readsAsWritten(text) && visible.test(text)

/** A text without what would keep it from reading as it was written: for names that are taken from elsewhere and not refused. */
export const asWritten = (text: string): string => text.replaceAll(allMisleading, '')
