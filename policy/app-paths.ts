import { entryPath, nameFault } from './archive-names.ts'
import { isDropped } from './archive-rules.ts'

const longestPath = 256

/** A folder of an application as a caller names it, relative and without `/` at its ends; '' = the root. Null when it cannot be one. */
export function appFolder(text: string): string | null {
  if (text.length > longestPath || text.includes('\\')) return null
  const place = entryPath(text.replace(/^\/+/, ''))
  if ('code' in place) return null
  return place.path === '' || isLegal(place.path) ? place.path : null
}

/** Where a single file lands that is sent into a folder; null when its name cannot be one. */
export function appFile(folder: string, name: string): string | null {
  if (name === '' || name === '.' || name === '..' || /[/\\]/.test(name)) return null
  const path = folder === '' ? name : `${folder}/${name}`
  return isLegal(path) ? path : null
}

/** What is dropped from archives cannot be written one by one either. */
const isLegal = (path: string): boolean => nameFault(path) === null && !isDropped(path) && !/\p{Surrogate}/u.test(path)
