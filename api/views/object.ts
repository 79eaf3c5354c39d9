import type { ObjectRow } from '../../db/objects/objects.ts'
import { type ObjectName, objectId } from '../../policy/objects/object-names.ts'
import { publicUrlOf } from '../../policy/objects/object-urls.ts'

type Named = Pick<ObjectRow, 'owner_id' | 'bucket' | 'key'>

const nameOf = ({ owner_id, bucket, key }: Named): ObjectName => ({ ownerId: owner_id, bucket, key })

export const idOf = (object: Named): string => objectId(nameOf(object))

/** The public address; null for a private object. */
const urlOf = (object: Named, publicUrl: string): string | null => publicUrlOf(publicUrl, nameOf(object))

/** Id, visibility and address: the first fields of every answer about an object. */
export const placeView = (object: Named, publicUrl: string) => ({
  id: idOf(object),
  private: object.bucket === 'private',
  url: urlOf(object, publicUrl),
})

/** Omitted when the object does not expire: existing clients read null as 1970. */
export const expiryView = ({ expires_at }: Pick<ObjectRow, 'expires_at'>) => ({
  expires_at: expires_at?.toISOString(),
})

/** Item of a listing (contract 7.14). */
export const objectItemView = (object: ObjectRow, publicUrl: string) => ({
  ...placeView(object, publicUrl),
  ...expiryView(object),
  size: object.size,
  created_at: object.created_at.toISOString(),
  etag: object.etag,
})

/** Contract 7.10. */
export const objectInfoView = (object: ObjectRow, publicUrl: string) => ({
  ...placeView(object, publicUrl),
  size: object.size,
  content_type: object.content_type,
  etag: object.etag,
  created_at: object.created_at.toISOString(),
  expires_at: object.expires_at?.toISOString() ?? null,
  cache_control: object.cache_control,
  content_disposition: object.content_disposition,
  original_name: object.original_name,
  metadata: object.metadata,
  legacy: object.bucket === 'legacy',
})
