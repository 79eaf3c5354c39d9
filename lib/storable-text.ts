/** Whether a text has neither NUL nor a half of a character, so that Postgres holds it as it is. */
export const isStorable = (text: string): boolean => !/\0|\p{Surrogate}/u.test(text)

/** The text as Postgres can hold it: NUL is taken out, a half of a character becomes U+FFFD. */
export function storable(text: string): string {
  return text.replaceAll('\u0000', '').replace(/\p{Surrogate}/gu, '\ufffd')
}

/** As JSON, with every text in it storable. */
export function storableJson(value: unknown): string {
  return JSON.stringify(value, (_, part) => (typeof part === 'string' ? storable(part) : part))
}
