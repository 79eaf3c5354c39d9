import { ApiError } from '../errors.ts'
import { objectPrefix } from './object-names.ts'

// A credential may be limited to names that begin with certain folders (contract 7.39). They are stored with the slash at their end.

/** Folders as a credential keeps them, each once; undefined when one of them is no folder. */
export function prefixLimits(texts: readonly string[]): string[] | undefined {
  const folders = texts.map(text => objectPrefix(text))
  return folders.every(folder => folder) ? [...new Set(folders.map(folder => `${folder}/`))] : undefined
}

/** Whether a name (what follows the account in an id) is one of a credential's. */
export function isWithin(prefixes: readonly string[] | null, key: string): boolean {
  return prefixes === null || prefixes.some(prefix => key.startsWith(prefix))
}

/** Throws PREFIX_REQUIRED at the root, and PREFIX_NOT_ALLOWED below other folders. `folder` ends in "/", or is empty. */
export function assertWithin(prefixes: readonly string[] | null, folder: string): void {
  if (isWithin(prefixes, folder)) return
  throw new ApiError(folder === '' ? 'PREFIX_REQUIRED' : 'PREFIX_NOT_ALLOWED')
}
