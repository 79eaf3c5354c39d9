/** Whether Postgres can store a text unchanged: it has neither NUL nor a lone surrogate. */
export const isStorable = (text: string): boolean => !/\0|\p{Surrogate}/u.test(text)

/** The text in a form that Postgres can store: without NUL, with U+FFFD for lone surrogates. */
export function storable(text: string): string {
  return text.replaceAll('\u0000', '').replace(/\p{Surrogate}/gu, '\ufffd')
}

/** As JSON, with every text in it storable. */
export function storableJson(value: unknown): string {
  return JSON.stringify(value, (_, part) => (typeof part === 'string' ? storable(part) : part))
}
