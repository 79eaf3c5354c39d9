import { S3Error } from '../../policy/s3/s3-errors.ts'
import { s3Limits } from '../../policy/s3/s3-limits.ts'
import { queryOf, type S3Call } from './operation.ts'
import { percentEncoded } from './signature/signed-request.ts'

/** The number of entries that a listing is limited to by the parameter `name`; more than 1000 are 1000. Throws InvalidArgument. */
export function pageSize(call: Pick<S3Call, 'request'>, name: string): number {
  const text = queryOf(call, name)
  if (text === undefined || text === '') return s3Limits.pageEntries
  if (!/^\d{1,10}$/.test(text)) throw new S3Error('InvalidArgument', `${name} must be a whole number from 0 on.`)
  return Math.min(Number(text), s3Limits.pageEntries)
}

/** How keys are written: as they are, or encoded, as XML cannot carry every character. Throws InvalidArgument. */
export function keyEncoding(call: Pick<S3Call, 'request'>): { type: string | undefined; of(text: string): string } {
  const type = queryOf(call, 'encoding-type')
  if (type !== undefined && type !== 'url') throw new S3Error('InvalidArgument', 'encoding-type must be url.')
  return { type, of: text => (type === 'url' ? percentEncoded(Buffer.from(text), true) : text) }
}

/** A parameter as a part of keys; empty when it is absent. Throws InvalidArgument for one that no key can have. */
export function keyQuery(call: Pick<S3Call, 'request'>, name: string): string {
  const text = queryOf(call, name) ?? ''
  if (text.includes('\0')) throw new S3Error('InvalidArgument', `${name} must not contain the character NUL.`)
  return text
}
