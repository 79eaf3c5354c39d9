import { S3Error } from './s3-errors.ts'
import { s3Limits } from './s3-limits.ts'

/** Tags as pairs, in their order. Throws InvalidTag for duplicates, too many, and keys or values of a wrong length. */
export function checkedTags(pairs: readonly (readonly [key: string, value: string])[]): Record<string, string> {
  const isValid = ([key, value]: readonly [string, string]) =>
    key !== '' && key.length <= s3Limits.tagKeyCharacters && value.length <= s3Limits.tagValueCharacters
  const keys = new Set(pairs.map(([key]) => key))
  if (keys.size !== pairs.length || pairs.length > s3Limits.tags || !pairs.every(isValid))
    throw new S3Error('InvalidTag')
  if (pairs.some(([key, value]) => key.includes('\0') || value.includes('\0'))) throw new S3Error('InvalidTag')
  return Object.fromEntries(pairs)
}

/** The tags of the header `x-amz-tagging`, which has the form of a query; undefined without it. */
export function tagsOfHeader(header: string | undefined): Record<string, string> | undefined {
  if (header === undefined) return undefined
  const tags = checkedTags([...new URLSearchParams(header)])
  return Object.keys(tags).length > 0 ? tags : undefined
}
