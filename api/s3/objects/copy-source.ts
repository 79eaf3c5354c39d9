import { findObject, type ObjectRow } from '../../../db/objects/objects.ts'
import type { ObjectName } from '../../../policy/objects/object-names.ts'
import { noSuchKey, S3Error } from '../../../policy/s3/s3-errors.ts'
import type { Services } from '../../services.ts'
import { namedBucket } from '../buckets/named-bucket.ts'
import { headerOf, objectOf, type S3Call } from '../operation.ts'
import { checkRights } from '../rights.ts'
import { assertOnlyVersion } from '../versions.ts'

/** The name in `x-amz-copy-source`: `[/]bucket/key[?versionId=null]`, percent-encoded. Reading it needs the right to read. */
export async function copySource(call: S3Call, services: Services): Promise<ObjectName> {
  const [, path = '', version] =
    /^\/?([^?]*)(?:\?versionId=(.*))?$/s.exec(headerOf(call, 'x-amz-copy-source') ?? '') ?? []
  assertOnlyVersion(version)
  const decoded = decodedPath(path)
  const at = decoded.indexOf('/')
  if (at < 1 || at === decoded.length - 1)
    throw new S3Error('InvalidArgument', 'x-amz-copy-source must have the form bucket/key.')
  checkRights(call.caller, 'read')
  const stored = await namedBucket(decoded.slice(0, at), call.caller.user.id, services)
  return objectOf({ caller: call.caller, stored, key: decoded.slice(at + 1) })
}

/** The source object itself. Throws NoSuchKey. */
export async function sourceObject(name: ObjectName, { db }: Services): Promise<ObjectRow> {
  const source = await findObject(db, name)
  if (!source) throw noSuchKey(name.key)
  return source
}

/** Some clients encode a space as `+`, which is a plus in paths; S3 reads it as a space here. */
function decodedPath(path: string): string {
  try {
    const decoded = decodeURIComponent(Buffer.from(path, 'latin1').toString().replaceAll('+', ' '))
    if (!decoded.includes('\0')) return decoded
  } catch {
    // No UTF-8, or an incomplete percent-encoding.
  }
  throw new S3Error('InvalidArgument', 'x-amz-copy-source is not a valid percent-encoded name.')
}
