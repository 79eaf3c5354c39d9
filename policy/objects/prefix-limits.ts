import { CodedError } from '../errors.ts'
import { objectPrefix } from './object-names.ts'

// A credential may be limited to names in certain folders (contract 7.39). They are stored with a trailing slash.

/** Folders as stored with a credential, without duplicates; undefined when one of them is not a folder. */
export function prefixLimits(texts: readonly string[]): string[] | undefined {
  const folders = texts.map(text => objectPrefix(text))
  return folders.every(folder => folder) ? [...new Set(folders.map(folder => `${folder}/`))] : undefined
}

/** Whether a name (an id without its account) is within a credential's folders. */
export function isKeyWithin(prefixes: readonly string[] | null, key: string): boolean {
  return prefixes === null || prefixes.some(prefix => key.startsWith(prefix))
}

/** Throws PREFIX_REQUIRED at the root, and PREFIX_NOT_ALLOWED below other folders. `folder` ends in "/", or is empty. */
export function assertWithin(prefixes: readonly string[] | null, folder: string): void {
  if (isKeyWithin(prefixes, folder)) return
  throw new CodedError(folder === '' ? 'PREFIX_REQUIRED' : 'PREFIX_NOT_ALLOWED')
}
