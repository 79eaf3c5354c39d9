import { entryPath, nameFault, nameLimits } from '../archives/archive-names.ts'
import { isDropped, notDropped } from '../archives/archive-rules.ts'
import type { ErrorCode } from '../errors.ts'
import { requestCaps } from '../request-caps.ts'
import { characters, isWithin } from '../stated-bounds.ts'

/** A folder of an application as a caller names it, relative and without `/` at its ends; '' = the root. Null when it cannot be one. */
export function appFolder(text: string): string | null {
  if (!isWithin(text, 0, requestCaps.folderCharacters) || text.includes('\\')) return null
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

// The same of fields in queries and bodies, with what the API documents tell of them.

const noParent = String.raw`(?!(?:[\s\S]*/)?\.\.(?:/|$))`
const someName = String.raw`(?!(?:\.?/)*\.?$)`

/** A path to a file or directory that is there. */
export const presentPath = pathField(
  String.raw`${noParent}${someName}[^\0\ud800-\udfff]*`,
  text => filePath(text) || null,
)

/** A path to something that is to be made. */
export const wantedPath = pathField(
  String.raw`${noParent}${someName}[^\\\u0000-\u001f\u007f\ud800-\udfff]*`,
  newFilePath,
)

/** A directory to be listed; the root too. */
export const listedPath = pathField(String.raw`${noParent}[^\0\ud800-\udfff]*`, filePath, requestCaps.folderCharacters)

/** A directory that a commit is laid into; the root too. */
export const commitPath = pathField(
  String.raw`(?!/*[A-Za-z]:)${noParent}${notDropped}[^\\\u0000-\u001f\u007f\ud800-\udfff]*`,
  appFolder,
  requestCaps.folderCharacters,
)

/** Becomes what `take` makes of it. INVALID_PATH for what is of another form, longer than `most` characters, or null to `take`. */
function pathField(form: string, take: (text: string) => string | null, most: number = nameLimits.pathBytes) {
  const code: ErrorCode = 'INVALID_PATH'
  return characters({ most }, code)
    .regex(new RegExp(`^${form}$`, 'u'), code)
    .refine(text => take(text) !== null, code)
    .meta({
      description: `At most ${nameLimits.levels} names deep, each of at most ${nameLimits.segmentBytes} bytes.`,
      'x-maxBytes': nameLimits.pathBytes,
      'x-maxNameBytes': nameLimits.segmentBytes,
    })
    .transform(text => take(text) ?? '')
}
