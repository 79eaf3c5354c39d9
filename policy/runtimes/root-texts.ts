import { shortWords } from '../hosts/installs.ts'

/** Files at the root by name; null for what is no plain file, or is too large to be looked into. */
export type RootTexts = ReadonlyMap<string, string | null>

/** Max characters of a line or a source that is looked into; one with the hashes of many files is long. */
export const maxLine = 50_000

/** Reasons quote texts of tenants, and are stored. */
export const because = (reason: string): { because: string } => ({ because: shortWords(reason) })

export type Fields = Record<string, unknown>

/** Whether it is an object other than a list. */
export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Parses an object; null for anything else. */
export function objectOf(text: string | null | undefined): Fields | null {
  try {
    const value: unknown = JSON.parse((text ?? '').replace(/^\ufeff/, ''))
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/** The entries of an object that are objects themselves: whatever made it may have written anything. Null for what is no object. */
export const objectsIn = (value: unknown): Record<string, Fields> | null =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).filter((entry): entry is [string, Fields] => isObject(entry[1])))
    : null

/** Without the quotation marks around it, if there are any; inside, two stand for one. */
export const unquoted = (text: string, mark: "'" | '"'): string =>
  text.length > 1 && text.startsWith(mark) && text.endsWith(mark)
    ? text.slice(1, -1).replaceAll(mark + mark, mark)
    : text

/** Left out, or an object or list without entries; anything else is for the package manager to judge. */
export const isEmpty = (value: unknown): boolean =>
  value === undefined || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
