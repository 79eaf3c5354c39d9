import { httpDate } from '../../lib/http-dates.ts'
import { S3Error } from './s3-errors.ts'

/** What conditions are evaluated against: an object's ETag without quotes, and when it was written. */
interface Existing {
  etag: string
  created_at: Date
}

type Header = (name: string) => readonly string[]

/** The conditions of a write: what `storeObject` needs to decide about it while the name is locked. */
export interface WriteConditions {
  /** False: the name must be new (`If-None-Match: *`). */
  overwrite: boolean
  /** Throws PreconditionFailed, and NoSuchKey when there is no object to match. */
  precondition?: (existing: Existing | undefined) => void
}

/** Reads `If-Match` and `If-None-Match` of a write. As with S3 the latter may only be `*`; else NotImplemented. */
export function writeConditions(header: Header): WriteConditions {
  const match = header('if-match')[0]
  const noneMatch = header('if-none-match')[0]
  if (noneMatch !== undefined && noneMatch.trim() !== '*')
    throw new S3Error('NotImplemented', 'If-None-Match of a write may only be *.')
  if (match !== undefined && noneMatch !== undefined)
    throw new S3Error('NotImplemented', 'If-Match and If-None-Match exclude each other.')
  return {
    overwrite: noneMatch === undefined,
    precondition: match === undefined ? undefined : existing => demandMatch(match, existing),
  }
}

/** The condition of DeleteObject: an absent object is deleted already. Throws NotImplemented for others than `If-Match`. */
export function deleteCondition(header: Header): ((existing: Existing | undefined) => void) | undefined {
  if (['x-amz-if-match-size', 'x-amz-if-match-last-modified-time'].some(name => header(name).length > 0))
    throw new S3Error('NotImplemented', 'The only condition of a deletion is If-Match.')
  const match = header('if-match')[0]
  return match === undefined ? undefined : existing => existing && demandMatch(match, existing)
}

function demandMatch(match: string, existing: Existing | undefined): void {
  if (!existing) throw new S3Error('NoSuchKey')
  if (match.trim() !== '*' && !tagsOf(match).includes(existing.etag))
    throw new S3Error('PreconditionFailed', undefined, { Condition: 'If-Match' })
}

/** Evaluates `x-amz-copy-source-if-*` against the source of a copy; each fails with PreconditionFailed. */
export function demandCopySource(header: Header, source: Existing): void {
  const condition = (name: string): string | undefined => header(`x-amz-copy-source-if-${name}`)[0]
  const [match, noneMatch] = [condition('match'), condition('none-match')]
  const writtenAt = Math.floor(source.created_at.getTime() / 1000)
  const hasTag = (list: string) => list.trim() === '*' || tagsOf(list).includes(source.etag)
  const since = (name: string) => dateOf(condition(name)) ?? Number.NaN
  // A tag says more than a date: where both are given, the date does not count.
  const checks: [name: string, failed: boolean][] = [
    ['match', match !== undefined && !hasTag(match)],
    ['unmodified-since', match === undefined && writtenAt > since('unmodified-since')],
    ['none-match', noneMatch !== undefined && hasTag(noneMatch)],
    ['modified-since', noneMatch === undefined && writtenAt <= since('modified-since')],
  ]
  const [name] = checks.find(([, failed]) => failed) ?? []
  if (name) throw new S3Error('PreconditionFailed', undefined, { Condition: `x-amz-copy-source-if-${name}` })
}

/** Clients send tags with and without their quotes. */
const tagsOf = (list: string): string[] => list.split(',').map(tag => tag.trim().replace(/^"(.*)"$/, '$1'))

/** Whole seconds; an invalid date is ignored. */
const dateOf = (value: string | undefined): number | undefined => httpDate(value?.trim() ?? '')
