import { randomBytes } from '../../lib/random-bytes.ts'

/** The bucket of an object. Legacy objects are public, and older than the current layout. */
export type Bucket = 'public' | 'private' | 'legacy'

/** A further private bucket, which only the S3 wire has: `x-` and its name (contract 7.52). */
export type ExtraBucket = `x-${string}`

export const isExtraBucket = (bucket: Bucket | ExtraBucket): bucket is ExtraBucket => bucket.startsWith('x-')

/** The code when the store of an object's bytes does not respond. */
export const unavailableStorage = (bucket: Bucket | ExtraBucket) =>
  bucket === 'private' || isExtraBucket(bucket) ? 'PRIVATE_STORAGE_UNAVAILABLE' : 'PUBLIC_STORAGE_UNAVAILABLE'

/** The name of an object: its key in the database, and its id on the wire. */
export interface ObjectName {
  ownerId: string
  bucket: Bucket | ExtraBucket
  /** The id without bucket and account. */
  key: string
}

/** Max bytes of a key; the S3 wire allows every text up to this. */
export const keyBytes = 1024

/** The form of an id; its key has up to `keyBytes`. */
export const idForm = /^(?:(pub|prv)\/)?([0-9]{18})\/([\s\S]+)$/
const folders = { public: 'pub/', private: 'prv/', legacy: '' } as const

/**
 * `pub/<account>/<key>`, `prv/<account>/<key>` or, of a legacy object, `<account>/<key>` (contract 7.1). The id of an object in an extra
 * bucket begins with the bucket: records show it, and no request can use it.
 */
export function objectId({ bucket, ownerId, key }: ObjectName): string {
  return `${isExtraBucket(bucket) ? `${bucket}/` : folders[bucket]}${ownerId}/${key}`
}

/** Parses an id; undefined when no object can have it. The caller must check its owner. */
export function objectName(id: string): ObjectName | undefined {
  const [, folder, ownerId, key] = idForm.exec(id) ?? []
  if (!ownerId || !key || !isKey(key)) return undefined
  return { bucket: folder === 'pub' ? 'public' : folder === 'prv' ? 'private' : 'legacy', ownerId, key }
}

/** Whether Postgres and every wire can represent a text as a key: no NUL, no lone surrogate, not too long. */
export function isKey(key: string): boolean {
  return key !== '' && !/[\0\p{Surrogate}]/u.test(key) && Buffer.byteLength(key) <= keyBytes
}

/** A name without extension that a caller may choose (contract 7.3): no `..`, and not the suffix of an expiring name. */
export const nameForm = /^(?!.*\.\.)(?!.*-ex\d+$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

export const isObjectName = (name: string): boolean => nameForm.test(name)

const folder = String.raw`[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}`
const folders8 = `${folder}(?:/${folder}){0,7}`

/** Up to 8 folders, with or without a trailing slash; the root is an empty string. */
export const prefixForm = new RegExp(`^(?:(?=.{1,256}/?$)${folders8}/?)?$`)

/** What can be listed: prefixes, and folders of any name and depth, as the S3 wire creates them, with their trailing slash. */
export const listedPrefixForm = new RegExp(String.raw`${prefixForm.source}|^[^/][\s\S]*/$`)

/** Folders with a trailing slash, as in rules. */
export const folderPrefixForm = new RegExp(`^(?=.{1,256}/$)${folders8}/$`)

/** A prefix without its trailing slash; undefined when it is invalid. */
export function objectPrefix(text: string): string | undefined {
  return prefixForm.test(text) ? text.replace(/\/$/, '') : undefined
}

/** The parts of a key. */
export interface KeyParts {
  /** Without its trailing slash; empty = the root. */
  prefix: string
  name: string
  /** 16 unguessable characters. */
  random?: string
  expiresAt?: Date | null
  /** Without its dot; empty = none. */
  extension: string
}

/** `[<prefix>/]<name>[_<random>][-ex<unix seconds>][.<extension>]` (contract 7.2). */
export function objectKey({ prefix, name, random, expiresAt, extension }: KeyParts): string {
  return [prefix && `${prefix}/`, name, random && `_${random}`, endSuffix(expiresAt), extension && `.${extension}`]
    .filter(Boolean)
    .join('')
}

const seconds = (time: Date): number => Math.floor(time.getTime() / 1000)
const endSuffix = (end: Date | null | undefined): string => (end ? `-ex${seconds(end)}` : '')

const keyForm =
  /^(?:(?<prefix>.+)\/)?(?<name>[^/]+?)(?:_(?<random>[a-z2-7]{16}))?(?:-ex(?<expiry>\d{9,11}))?(?:\.(?<extension>(?:tar\.)?[A-Za-z0-9]{1,16}))?$/s

/** Parses a key; undefined for keys that only the S3 wire can create (such as a folder itself). */
export function keyParts(key: string): KeyParts | undefined {
  const groups = keyForm.exec(key)?.groups
  if (!groups?.name) return undefined
  return {
    prefix: groups.prefix ?? '',
    name: groups.name,
    random: groups.random,
    expiresAt: groups.expiry === undefined ? null : new Date(Number(groups.expiry) * 1000),
    extension: groups.extension ?? '',
  }
}

/**
 * The key with another end. The suffix of the end that the object has is replaced; what looks like one and is not is a part of a name that
 * the S3 wire chose. A folder itself keeps its key.
 */
export function keyWithEnd(key: string, before: Date | null, after: Date | null): string {
  const parts = keyParts(key)
  if (!parts) return key
  if (before && parts.expiresAt && seconds(before) === seconds(parts.expiresAt))
    return objectKey({ ...parts, expiresAt: after })
  const extension = parts.extension && `.${parts.extension}`
  return `${key.slice(0, key.length - extension.length)}${endSuffix(after)}${extension}`
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** 16 characters of base32, 80 bits, that make an address unguessable. */
export const newRandomPart = (): string => Array.from(randomBytes(16), byte => alphabet[byte & 31]).join('')
