import { asWritten } from '../../../lib/shown-names.ts'
import { CodedError } from '../../errors.ts'
import { isObjectName, newRandomPart, type ObjectName, objectKey } from '../object-names.ts'
import { contentTypeOf, extensionOf, extensionOfType, isBlockedType, nameOfFile, typesOf } from '../object-types.ts'
import type { UploadTerms } from './upload-terms.ts'

/** A file as named by its sender. */
export interface GivenFile {
  fileName: string
  /** Content type of the part, if it has one. */
  type?: string
}

/** The object of an uploaded file. */
export interface UploadedFile {
  object: ObjectName
  /** As requested, or derived from the file's name: without added parts. */
  name: string
  contentType: string
  originalName: string | null
}

/** Browsers send this as the name of a file without one. */
const nameless = 'blob'

/**
 * The object of a file under the terms of its upload; random parts of names are new each time. Throws INVALID_OBJECT_NAME,
 * INVALID_FILE_TYPE, BLOCKED_FILE_TYPE and FILE_TYPE_NOT_ALLOWED.
 */
export function uploadedFile(terms: UploadTerms, ownerId: string, file: GivenFile): UploadedFile {
  const { name, extension, types } = nameFile(terms.name, file)
  assertNotBlocked(extension)
  if (!terms.extensions.every(list => types.some(type => list.includes(type))))
    throw new CodedError('FILE_TYPE_NOT_ALLOWED')
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
  /** Types for comparison with lists. */
  types: string[]
}

/** The extension is the file's; for a file without one, that of the requested name. */
function nameFile(requested: string | undefined, { fileName, type }: GivenFile): NamedFile {
  const ofFile = fileName === nameless && type ? (extensionOfType(type) ?? '') : extensionOf(fileName)
  if (ofFile === undefined) throw new CodedError('INVALID_FILE_TYPE')
  const name = requested ?? (nameOfFile(fileName) || 'file')
  if (ofFile === '') return { ...nameWithType(name), types: typesOf(name) }
  return { name, extension: ofFile, types: fileName === nameless ? typesOf(`${name}.${ofFile}`) : typesOf(fileName) }
}

/** Splits a requested name into name and extension, for a file without extension. Throws INVALID_OBJECT_NAME when the rest is not a valid name. */
export function nameWithType(requested: string): { name: string; extension: string } {
  const extension = extensionOf(requested) ?? ''
  const name = extension ? requested.slice(0, -extension.length - 1) : requested
  if (!isObjectName(name)) throw new CodedError('INVALID_OBJECT_NAME')
  return { name, extension }
}

/** Throws BLOCKED_FILE_TYPE. */
export function assertNotBlocked(extension: string): void {
  if (isBlockedType(extension)) throw new CodedError('BLOCKED_FILE_TYPE')
}

/** Without folders and characters that would not display as written; null when nothing is left. */
function originalName(fileName: string): string | null {
  const base = fileName.split(/[/\\]/).at(-1) as string
  return [...asWritten(base).trim()].slice(0, 255).join('') || null
}
