import { randomBytes } from '../../lib/random-bytes.ts'

/** Where an object lives. Legacy objects are public, and older than the layout of today. */
export type Bucket = 'public' | 'private' | 'legacy'

/** What is said when the store of an object's bytes does not answer. */
export const unavailableStorage = (bucket: Bucket) =>
  bucket === 'private' ? 'PRIVATE_STORAGE_UNAVAILABLE' : 'PUBLIC_STORAGE_UNAVAILABLE'

/** What an object is found by: the row's key, and the id of the wire. */
export interface ObjectName {
  ownerId: string
  bucket: Bucket
  /** What follows the bucket's and the account's part of the id. */
  key: string
}

/** Bytes of a key; the S3 wire allows every text up to it. */
export const keyBytes = 1024

/** The form of an id; its key takes up to `keyBytes`. */
export const idForm = /^(?:(pub|prv)\/)?([0-9]{18})\/([\s\S]+)$/
const folders = { public: 'pub/', private: 'prv/', legacy: '' } as const

/** `pub/<account>/<key>`, `prv/<account>/<key>` or, of a legacy object, `<account>/<key>` (contract 7.1). */
export function objectId({ bucket, ownerId, key }: ObjectName): string {
  return `${folders[bucket]}${ownerId}/${key}`
}

/** The name that an id says; undefined where no object can have it. Whose it is, is for the caller to compare. */
export function objectName(id: string): ObjectName | undefined {
  const [, folder, ownerId, key] = idForm.exec(id) ?? []
  if (!ownerId || !key || !isKey(key)) return undefined
  return { bucket: folder === 'pub' ? 'public' : folder === 'prv' ? 'private' : 'legacy', ownerId, key }
}

/** Whether Postgres and every wire can keep a text as a key: no NUL, no half of a character, not too long. */
export function isKey(key: string): boolean {
  return key !== '' && !/[\0\p{Surrogate}]/u.test(key) && Buffer.byteLength(key) <= keyBytes
}

/** A name, without its extension, that a caller may choose (contract 7.3): no `..`, and not the end of one that expires. */
export const nameForm = /^(?!.*\.\.)(?!.*-ex\d+$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

export const isObjectName = (name: string): boolean => nameForm.test(name)

const folder = String.raw`[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}`
const folders8 = `${folder}(?:/${folder}){0,7}`

/** Up to 8 folders, with or without the slash at their end; the root is an empty text. */
export const prefixForm = new RegExp(`^(?:(?=.{1,256}/?$)${folders8}/?)?$`)

/** Folders that end in the slash, as a rule has them. */
export const folderPrefixForm = new RegExp(`^(?=.{1,256}/$)${folders8}/$`)

/** A prefix without the slash at its end; undefined when it may not be. */
export function objectPrefix(text: string): string | undefined {
  return prefixForm.test(text) ? text.replace(/\/$/, '') : undefined
}

/** What a key is made of. */
export interface KeyParts {
  /** Without the slash at its end; empty = the root. */
  prefix: string
  name: string
  /** 16 characters that nobody guesses. */
  random?: string
  expiresAt?: Date | null
  /** Without its dot; empty = none. */
  extension: string
}

/** `[<prefix>/]<name>[_<random>][-ex<unix seconds>][.<extension>]` (contract 7.2). */
export function objectKey({ prefix, name, random, expiresAt, extension }: KeyParts): string {
  return [
    prefix && `${prefix}/`,
    name,
    random && `_${random}`,
    expiresAt && `-ex${Math.floor(expiresAt.getTime() / 1000)}`,
    extension && `.${extension}`,
  ]
    .filter(Boolean)
    .join('')
}

const keyForm =
  /^(?:(?<prefix>.+)\/)?(?<name>[^/]+?)(?:_(?<random>[a-z2-7]{16}))?(?:-ex(?<expiry>\d{9,11}))?(?:\.(?<extension>(?:tar\.)?[A-Za-z0-9]{1,16}))?$/s

/** The parts of a key; undefined for one that only the S3 wire could have made (a folder's own, say). */
export function keyParts(key: string): KeyParts | undefined {
  const found = keyForm.exec(key)?.groups
  if (!found?.name) return undefined
  return {
    prefix: found.prefix ?? '',
    name: found.name,
    random: found.random,
    expiresAt: found.expiry === undefined ? null : new Date(Number(found.expiry) * 1000),
    extension: found.extension ?? '',
  }
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** 16 characters of base32, 80 bits: what makes an address impossible to guess. */
export const newRandomPart = (): string => Array.from(randomBytes(16), byte => alphabet[byte & 31]).join('')
