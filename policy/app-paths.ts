import { entryPath, nameFault, nameLimits } from './archive-names.ts'
import { isDropped } from './archive-rules.ts'
import { requestCaps } from './request-caps.ts'

/** A folder of an application as a caller names it, relative and without `/` at its ends; '' = the root. Null when it cannot be one. */
export function appFolder(text: string): string | null {
  if (text.length > requestCaps.folderCharacters || text.includes('\\')) return null
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

/** A name inside an application as a caller says it, relative and without empty parts; '' = the root. Null when there can be no such name. */
export function filePath(text: string): string | null {
  const segments = text.split('/').filter(segment => segment !== '' && segment !== '.')
  const path = segments.join('/')
  const legal =
    !segments.includes('..') &&
    !/\0|\p{Surrogate}/u.test(path) &&
    segments.every(segment => Buffer.byteLength(segment) <= nameLimits.segmentBytes) &&
    segments.length <= nameLimits.levels &&
    Buffer.byteLength(path) <= nameLimits.pathBytes
  return legal ? path : null
}

/** `filePath` for something that is to be made: stricter, for what lies there already must be removable whatever its name is. */
export function newFilePath(text: string): string | null {
  const path = filePath(text)
  return path && !path.includes('\\') && nameFault(path) === null ? path : null
}

/** What is dropped from archives cannot be written one by one either. */
const isLegal = (path: string): boolean => nameFault(path) === null && !isDropped(path) && !/\p{Surrogate}/u.test(path)
