import { asWritten } from '../../../lib/shown-names.ts'
import { ApiError } from '../../errors.ts'
import { isObjectName, newRandomPart, type ObjectName, objectKey } from '../object-names.ts'
import { contentTypeOf, extensionOf, extensionOfType, isBlockedType, nameOfFile, typesOf } from '../object-types.ts'
import type { UploadTerms } from './upload-terms.ts'

/** A file as its sender calls it. */
export interface GivenFile {
  fileName: string
  /** Content type of the part, where it has one. */
  type?: string
}

/** What the file of an upload becomes. */
export interface UploadedFile {
  object: ObjectName
  /** As it was asked for, or made of the file's: without what is added to it. */
  name: string
  contentType: string
  originalName: string | null
}

/** What browsers call a file that has no name. */
const nameless = 'blob'

/**
 * The object that a file becomes under the terms of its upload; names with a random part are new each time. Throws
 * INVALID_OBJECT_NAME, INVALID_FILE_TYPE, BLOCKED_FILE_TYPE and FILE_TYPE_NOT_ALLOWED.
 */
export function uploadedFile(terms: UploadTerms, ownerId: string, file: GivenFile): UploadedFile {
  const { name, extension, types } = named(terms.name, file)
  assertNotBlocked(extension)
  if (!terms.extensions.every(list => types.some(type => list.includes(type))))
    throw new ApiError('FILE_TYPE_NOT_ALLOWED')
  const { bucket, prefix, hashed, expiresAt } = terms
  const random = hashed ? newRandomPart() : undefined
  return {
    object: { ownerId, bucket, key: objectKey({ prefix, name, random, expiresAt, extension }) },
    name,
    contentType: contentTypeOf(extension),
    originalName: file.fileName === nameless ? null : originalName(file.fileName),
  }
}

interface NamedFile {
  name: string
  extension: string
  /** What a list may call it by. */
  types: string[]
}

/** The extension is the file's; of a file without one it is what the name ends in. */
function named(asked: string | undefined, { fileName, type }: GivenFile): NamedFile {
  const ofFile = fileName === nameless && type ? (extensionOfType(type) ?? '') : extensionOf(fileName)
  if (ofFile === undefined) throw new ApiError('INVALID_FILE_TYPE')
  const name = asked ?? (nameOfFile(fileName) || 'file')
  if (ofFile === '') return { ...nameWithType(name), types: typesOf(name) }
  return { name, extension: ofFile, types: fileName === nameless ? typesOf(`${name}.${ofFile}`) : typesOf(fileName) }
}

/** A name and the extension that it ends in, of a file that has none. Throws INVALID_OBJECT_NAME where what is left may not be a name. */
export function nameWithType(asked: string): { name: string; extension: string } {
  const extension = extensionOf(asked) ?? ''
  const name = extension ? asked.slice(0, -extension.length - 1) : asked
  if (!isObjectName(name)) throw new ApiError('INVALID_OBJECT_NAME')
  return { name, extension }
}

/** Throws BLOCKED_FILE_TYPE. */
export function assertNotBlocked(extension: string): void {
  if (isBlockedType(extension)) throw new ApiError('BLOCKED_FILE_TYPE')
}

/** Without folders and what would not show as it is written; null when nothing is left. */
function originalName(fileName: string): string | null {
  const base = fileName.split(/[/\\]/).at(-1) as string
  return [...asWritten(base).trim()].slice(0, 255).join('') || null
}
