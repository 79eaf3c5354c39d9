import { z } from 'zod'
import { CodedError } from '../../../policy/errors.ts'
import {
  cursorForm,
  cursorLength,
  cursorSecret,
  type ListFilters,
  listCursor,
  readListCursor,
} from '../../../policy/objects/list-cursors.ts'
import { assertWithin } from '../../../policy/objects/prefix-limits.ts'
import { listedPrefixField, toggle } from '../../../policy/objects/uploads/upload-fields.ts'
import { requestCaps } from '../../../policy/request-caps.ts'
import type { Caller } from '../../pipeline/authenticate.ts'
import { isoTime, pageLimit } from '../../pipeline/fields.ts'
import { mapUnexpectedError } from '../../pipeline/unexpected-errors.ts'
import { objectItemView } from '../../views/object.ts'
import { blobEndpoint } from '../blob-endpoint.ts'
import { listWithin } from './object-listing.ts'

const text = z.string()
const wrongCursor = 'INVALID_CONTINUATION_TOKEN'
const cursor = z.string({ error: wrongCursor }).max(cursorLength, wrongCursor).regex(cursorForm, wrongCursor).optional()

const query = z.object({
  prefix: listedPrefixField.optional(),
  delimiter: z.literal('/').optional(),
  private: toggle('INVALID_PARAMETERS'),
  limit: pageLimit(requestCaps.objectsListed, requestCaps.objectsListed),
  cursor,
  /** Its name in older clients. */
  continuationToken: cursor,
})

/** Contract 7.14: in the byte order of names; only the last page may contain fewer folders and objects than requested. */
export const listObjects = blobEndpoint({
  name: 'objects.list',
  method: 'GET',
  path: '/v1/objects',
  summary: 'List objects',
  auth: { scope: 'blob:read' },
  query,
  response: z.object({
    objects: z.array(
      z.object({
        id: text,
        size: z.int(),
        created_at: isoTime,
        expires_at: isoTime.optional(),
        private: z.boolean(),
        url: text.nullable(),
        etag: text,
      }),
    ),
    folders: z.array(text).optional(),
    continuationToken: text.optional(),
    cursor: text.optional(),
  }),
  errors: ['INVALID_OBJECT_PREFIX', wrongCursor, 'PREFIX_NOT_ALLOWED', 'LIST_FAILED'],
  async handle({ caller, query }, services) {
    const { db, config } = services
    const secret = cursorSecret(config.masterKey)
    const filters = filtersOf(query, caller)
    const given = query.cursor ?? query.continuationToken
    const after = given === undefined ? undefined : readListCursor(secret, filters, given, new Date())
    if (given !== undefined && !after) throw new CodedError(wrongCursor)
    const listing = { ...filters, limit: query.limit, after }
    const page = await mapUnexpectedError('LIST_FAILED', services, () => listWithin(db, listing, caller.prefixes))
    const next = page.next && listCursor(secret, filters, page.next, new Date())
    return {
      objects: page.objects.map(object => objectItemView(object, config.urls.public)),
      folders: query.delimiter && page.folders,
      continuationToken: next,
      cursor: next,
    }
  },
})

/** What to list. Without a folder, a limited key lists what it may see. Throws PREFIX_NOT_ALLOWED. */
function filtersOf({ prefix = '', delimiter, private: hidden }: z.output<typeof query>, caller: Caller): ListFilters {
  if (prefix !== '') assertWithin(caller.prefixes, prefix)
  const buckets = {
    true: ['private'],
    false: ['public', 'legacy'],
    undefined: ['public', 'private', 'legacy'],
  } as const
  return { ownerId: caller.user.id, buckets: buckets[`${hidden}`], prefix, delimiter }
}
