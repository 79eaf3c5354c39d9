import type { ListPage } from '../../../db/objects/object-lists.ts'
import type { ObjectRow } from '../../../db/objects/objects.ts'
import {
  cursorSecret,
  type ListFilters,
  type ListPosition,
  listCursor,
  readListCursor,
} from '../../../policy/objects/list-cursors.ts'
import { assertWithin } from '../../../policy/objects/prefix-limits.ts'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import type { Services } from '../../services.ts'
import { listWithin } from '../../v1/objects/object-listing.ts'
import { ownerElements, xmlReply } from '../answers.ts'
import { type Operation, queryOf, type S3Call } from '../operation.ts'
import { keyEncoding, keyQuery, pageSize } from '../pages.ts'
import { onlyVersion } from '../versions.ts'
import type { Xml } from '../xml.ts'
import { quotedEtag } from './object-views.ts'

const listing = { method: 'GET', target: 'bucket', support: 'supported', needs: 'read' } as const

/** The first version: pages continue after a key. */
export const listObjects: Operation = {
  ...listing,
  name: 'ListObjects',
  async handle(call, services) {
    const marker = keyQuery(call, 'marker')
    const { request, page, encoded } = await list(call, services, afterKey(marker, call))
    const { next } = page
    return xmlReply('ListBucketResult', {
      ...request,
      Marker: encoded(marker),
      // S3 gives it with a delimiter only; clients then use the last key, which sorts before it or is it.
      NextMarker: next && encoded(next.key),
      ...entries(page, encoded, call, true),
    })
  },
}

/** The second version: pages continue with an opaque token. */
export const listObjectsV2: Operation = {
  ...listing,
  name: 'ListObjectsV2',
  query: ['list-type'],
  async handle(call, services) {
    if (queryOf(call, 'list-type') !== '2') throw new S3Error('InvalidArgument', 'list-type must be 2.')
    const token = queryOf(call, 'continuation-token')
    const startAfter = keyQuery(call, 'start-after')
    const secret = cursorSecret(services.config.masterKey)
    const filters = filtersOf(call)
    const after = token === undefined ? afterKey(startAfter, call) : readListCursor(secret, filters, token, new Date())
    if (token !== undefined && !after)
      throw new S3Error('InvalidArgument', 'The continuation token is not one of this listing, or older than a day.')
    const { request, page, encoded } = await list(call, services, after)
    return xmlReply('ListBucketResult', {
      ...request,
      KeyCount: page.objects.length + page.folders.length,
      ContinuationToken: token,
      StartAfter: startAfter === '' ? undefined : encoded(startAfter),
      NextContinuationToken: page.next && listCursor(secret, filters, page.next, new Date()),
      ...entries(page, encoded, call, queryOf(call, 'fetch-owner') === 'true'),
    })
  },
}

/** Every object has one version, as versioning is off; programs that empty a bucket list it like this. */
export const listObjectVersions: Operation = {
  ...listing,
  name: 'ListObjectVersions',
  query: ['versions'],
  async handle(call, services) {
    const marker = keyQuery(call, 'key-marker')
    const { request, page, encoded } = await list(call, services, afterKey(marker, call))
    const { Contents, CommonPrefixes } = entries(page, encoded, call, true)
    return xmlReply('ListVersionsResult', {
      ...request,
      KeyMarker: encoded(marker),
      VersionIdMarker: queryOf(call, 'version-id-marker') ?? '',
      NextKeyMarker: page.next && encoded(page.next.key),
      NextVersionIdMarker: page.next && onlyVersion,
      Version: Contents.map(entry => ({ ...entry, VersionId: onlyVersion, IsLatest: true })),
      CommonPrefixes,
    })
  },
}

/** What is listed. Throws PREFIX_NOT_ALLOWED, PREFIX_REQUIRED and InvalidArgument. */
function filtersOf(call: S3Call): ListFilters {
  const prefix = keyQuery(call, 'prefix')
  const delimiter = keyQuery(call, 'delimiter') || undefined
  // A credential that is limited to prefixes may list the root, which shows only these, but not by a delimiter other than `/`.
  if (prefix !== '' || (delimiter ?? '/') !== '/') assertWithin(call.caller.prefixes, prefix)
  return { ownerId: call.caller.user.id, buckets: [call.stored], prefix, delimiter }
}

/** A listing continues after a key; after a folder that a page ended with, it continues after all that is in it. */
function afterKey(key: string, call: S3Call): ListPosition | undefined {
  if (key === '') return undefined
  const [prefix, delimiter] = [keyQuery(call, 'prefix'), keyQuery(call, 'delimiter')]
  const at = delimiter !== '' && key.startsWith(prefix) ? key.indexOf(delimiter, prefix.length) : -1
  const isFolder = at !== -1 && at + delimiter.length === key.length
  return { key, bucket: isFolder ? null : call.stored }
}

interface Listed {
  page: ListPage
  /** The elements that repeat what was requested, as every listing begins. */
  request: Record<string, Xml>
  encoded(text: string): string
}

async function list(call: S3Call, { db }: Services, after: ListPosition | undefined): Promise<Listed> {
  const filters = filtersOf(call)
  const limit = pageSize(call, 'max-keys')
  const encoding = keyEncoding(call)
  const page =
    limit === 0
      ? { objects: [], folders: [] }
      : await listWithin(db, { ...filters, limit, after }, call.caller.prefixes)
  const request = {
    Name: call.bucket,
    Prefix: encoding.of(filters.prefix),
    MaxKeys: limit,
    Delimiter: filters.delimiter && encoding.of(filters.delimiter),
    EncodingType: encoding.type,
    IsTruncated: 'next' in page && page.next !== undefined,
  }
  return { page, request, encoded: encoding.of }
}

function entries(
  { objects, folders }: ListPage,
  encoded: (text: string) => string,
  { caller }: S3Call,
  withOwner: boolean,
) {
  const owner = withOwner ? ownerElements(caller) : undefined
  return {
    Contents: objects.map(object => entry(object, encoded, owner)),
    CommonPrefixes: folders.map(folder => ({ Prefix: encoded(folder) })),
  }
}

const entry = (object: ObjectRow, encoded: (text: string) => string, owner: Record<string, Xml> | undefined) => ({
  Key: encoded(object.key),
  LastModified: object.created_at,
  ETag: quotedEtag(object.etag),
  ChecksumAlgorithm: object.s3?.checksum?.algorithm,
  ChecksumType: object.s3?.checksum?.type,
  Size: object.size,
  StorageClass: 'STANDARD',
  Owner: owner,
})
