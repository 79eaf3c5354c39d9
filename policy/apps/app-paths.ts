import { z } from 'zod'
import { entryPath, nameFault, nameLimits } from '../archives/archive-names.ts'
import { isDropped, notDropped } from '../archives/archive-rules.ts'
import type { ErrorCode } from '../errors.ts'
import { requestCaps } from '../request-caps.ts'
import { characters, isLengthWithin } from '../stated-bounds.ts'

/** A caller's path of a folder of an application, relative and without `/` at its ends; '' = the root. Null for an invalid path. */
function appFolder(text: string): string | null {
  if (!isLengthWithin(text, 0, requestCaps.folderCharacters) || text.includes('\\')) return null
  const entry = entryPath(text.replace(/^\/+/, ''))
  if ('code' in entry) return null
  return entry.path === '' || isLegal(entry.path) ? entry.path : null
}

/** The path of a single file that is sent into a folder; null for an invalid name. */
export function appFile(folder: string, name: string): string | null {
  if (name === '' || name === '.' || name === '..' || /[/\\]/.test(name)) return null
  const path = folder === '' ? name : `${folder}/${name}`
  return isLegal(path) ? path : null
}

/** A caller's path inside an application, relative and without empty parts; '' = the root. Null for an impossible path. */
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

/** `filePath` for a new file: stricter, because existing files must be removable whatever their names are. */
export function newFilePath(text: string): string | null {
  const path = filePath(text)
  return path && !path.includes('\\') && nameFault(path) === null ? path : null
}

/** Names that are dropped from archives cannot be written individually either. */
const isLegal = (path: string): boolean => nameFault(path) === null && !isDropped(path) && !/\p{Surrogate}/u.test(path)

// The same for fields in queries and bodies, with their description for the OpenAPI document.

const noParent = String.raw`(?!(?:[\s\S]*/)?\.\.(?:/|$))`
const someName = String.raw`(?!(?:\.?/)*\.?$)`

/** The path of an existing file or directory. */
export const presentPath = pathField(
  String.raw`${noParent}${someName}[^\0\ud800-\udfff]*`,
  text => filePath(text) || null,
)

/** The path of a new file or directory. */
export const wantedPath = pathField(
  String.raw`${noParent}${someName}[^\\\u0000-\u001f\u007f\ud800-\udfff]*`,
  newFilePath,
)

/** A directory to be listed, or the root. */
export const listedPath = pathField(String.raw`${noParent}[^\0\ud800-\udfff]*`, filePath, requestCaps.folderCharacters)

/** A directory that a commit is placed in, or the root. */
/** Whether the dependencies of an upload are installed anew, whatever a cache holds (contract 6.25). */
export const noCache = z.enum(['true', 'false'], { error: 'no_cache must be true or false' }).default('false').meta({
  default: 'false',
  description: 'true = install the dependencies anew, without the result of an earlier install step',
})

export const commitPath = pathField(
  String.raw`(?!/*[A-Za-z]:)${noParent}${notDropped}[^\\\u0000-\u001f\u007f\ud800-\udfff]*`,
  appFolder,
  requestCaps.folderCharacters,
)

/** A field whose value is the result of `parse`. INVALID_PATH when it has another form, over `max` characters, or `parse` returns null. */
function pathField(form: string, parse: (text: string) => string | null, max: number = nameLimits.pathBytes) {
  const code: ErrorCode = 'INVALID_PATH'
  return characters({ max }, code)
    .regex(new RegExp(`^${form}$`, 'u'), code)
    .refine(text => parse(text) !== null, code)
    .meta({
      description: `At most ${nameLimits.levels} names deep, each of at most ${nameLimits.segmentBytes} bytes.`,
      'x-maxBytes': nameLimits.pathBytes,
      'x-maxNameBytes': nameLimits.segmentBytes,
    })
    .transform(text => parse(text) ?? '')
}
