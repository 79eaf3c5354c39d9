import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { S3Error } from '../../../policy/s3/s3-errors.ts'
import { type Signer, sameSignature } from './signing.ts'

const condition = z.union([
  z.record(z.string(), z.string()),
  z.tuple([z.string(), z.string(), z.string()]),
  z.tuple([z.string(), z.number().int().nonnegative(), z.number().int().nonnegative()]),
])
const document = z.object({ expiration: z.iso.datetime(), conditions: z.array(condition) })

/** Sizes of the file that a policy allows, in bytes. */
export interface PostSizes {
  min: number
  max: number
}

/** Fields that no condition must cover; so are those that begin with `x-ignore-`. */
const free = new Set(['policy', 'x-amz-signature', 'file'])

/**
 * Checks the fields of a form against its policy: it must not have expired at `now` (milliseconds since 1970), every condition must hold,
 * and every field must be covered by one. Names of fields are in lower case; `bucket` is the one that the form is sent to. Returns the
 * sizes that the file may have. Throws AccessDenied, and InvalidArgument for a policy that is malformed.
 */
export function checkPolicy(fields: ReadonlyMap<string, string>, now: number): PostSizes {
  const { expiration, conditions } = readPolicy(fields.get('policy') ?? '')
  if (Date.parse(expiration) < now) throw denied('Policy expired.')
  const covered = new Set<string>()
  const sizes = { min: 0, max: Number.MAX_SAFE_INTEGER }
  for (const one of conditions) {
    if (!Array.isArray(one)) for (const [name, value] of Object.entries(one)) covered.add(exact(fields, name, value))
    else if (typeof one[1] === 'number') narrow(sizes, one as [string, number, number])
    else covered.add(matched(fields, one as [string, string, string]))
  }
  for (const name of fields.keys())
    if (!covered.has(name) && !free.has(name) && !name.startsWith('x-ignore-'))
      throw denied(`Extra input fields: ${name}`)
  return sizes
}

function readPolicy(base64: string): z.infer<typeof document> {
  try {
    return document.parse(JSON.parse(Buffer.from(base64, 'base64').toString('utf8')))
  } catch {
    throw new S3Error(
      'InvalidArgument',
      'The policy must be a JSON document in base64, with expiration and conditions.',
    )
  }
}

function exact(fields: ReadonlyMap<string, string>, name: string, value: string): string {
  const field = name.toLowerCase()
  if (fields.get(field) !== value) throw failed(['eq', `$${name}`, value])
  return field
}

function matched(fields: ReadonlyMap<string, string>, one: [string, string, string]): string {
  const [operator, name, value] = one
  const field = name.replace(/^\$/, '').toLowerCase()
  if (operator.toLowerCase() === 'eq') return exact(fields, field, value)
  if (operator.toLowerCase() !== 'starts-with' || !name.startsWith('$'))
    throw new S3Error('InvalidArgument', `The policy has an unknown condition: ${JSON.stringify(one)}.`)
  // A type may be a list, of which each must match.
  const values =
    field === 'content-type' ? (fields.get(field) ?? '').split(',').map(type => type.trim()) : [fields.get(field) ?? '']
  if (!values.every(given => given.startsWith(value))) throw failed(one)
  return field
}

function narrow(sizes: PostSizes, one: [string, number, number]): void {
  const [operator, min, max] = one
  if (operator.toLowerCase() !== 'content-length-range')
    throw new S3Error('InvalidArgument', `The policy has an unknown condition: ${JSON.stringify(one)}.`)
  sizes.min = Math.max(sizes.min, min)
  sizes.max = Math.min(sizes.max, max)
}

/** Verifies the signature of a form: that of its policy, as it was sent. Throws SignatureDoesNotMatch. */
export function verifyPolicy(fields: ReadonlyMap<string, string>, { key }: Pick<Signer, 'key'>): void {
  const expected = createHmac('sha256', key)
    .update(fields.get('policy') ?? '')
    .digest('hex')
  if (!sameSignature(expected, fields.get('x-amz-signature') ?? '')) throw new S3Error('SignatureDoesNotMatch')
}

const failed = (one: readonly string[]): S3Error =>
  denied(`Invalid according to Policy: Policy Condition failed: ${JSON.stringify(one)}`)
const denied = (message: string): S3Error => new S3Error('AccessDenied', message)
