import { shortWords } from '../hosts/installs.ts'

/** Files at the root by name; null for what is no plain file, or is too large to be looked into. */
export type RootTexts = ReadonlyMap<string, string | null>

/** Max characters of a line or a source that is looked into; one with the hashes of many files is long. */
export const maxLine = 50_000

/** Reasons quote texts of tenants, and are stored. */
export const because = (reason: string): { because: string } => ({ because: shortWords(reason) })

export type Fields = Record<string, unknown>

/** Parses an object; null for anything else. */
export function objectOf(text: string | null | undefined): Fields | null {
  try {
    const value = JSON.parse((text ?? '').replace(/^\ufeff/, ''))
    return typeof value === 'object' && !Array.isArray(value) ? value : null
  } catch {
    return null
  }
}

/** Left out, or an object or list without entries; anything else is for the package manager to judge. */
export const isEmpty = (value: unknown): boolean =>
  value === undefined || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)
