import { GiB, MiB } from '../../lib/bytes.ts'
import { type Environment, integer, number, oneOf } from '../environment.ts'

/** Settings of blob storage (contract 7.43). */
export interface BlobSettings {
  /** Max concurrent single uploads of one account. */
  concurrentUploads: number
  /** Smaller files are refused; 0 = no minimum. */
  minBytes: number
  chunked: ChunkedSettings
  prices: BlobPrices
  s3: S3Settings
  /** False: nothing is deleted automatically, not even expired objects. */
  upkeep: boolean
}

/** Settings of the S3 gateway (contract 7.52, 7.53). */
interface S3Settings {
  /** Whether accounts may create further private buckets. */
  extraBuckets: boolean
  /** Origins whose pages may send requests, by bucket; `*` = all. */
  corsOrigins: Readonly<Record<string, readonly string[]>>
}

interface ChunkedSettings {
  /** Max open chunked uploads of one account. */
  maxOpen: number
  maxParts: number
  /** Of the whole file. */
  maxBytes: number
}

/** Per month, in the operator's currency; shown in the account's stats, and not charged by Berth. */
export interface BlobPrices {
  /** Per GB beyond what the plan includes. */
  perExtraGb: number
  perThousandObjects: number
}

/** Throws an Error that names the setting and what it accepts. */
export function blobSettings(env: Environment): BlobSettings {
  return {
    concurrentUploads: within(env, 'BLOB_CONCURRENT_UPLOADS', 16, 1, 1000),
    minBytes: within(env, 'BLOB_MIN_SIZE', 0, 0, 100 * MiB),
    chunked: {
      maxOpen: within(env, 'CHUNKED_MAX_OPEN', 8, 1, 32),
      maxParts: within(env, 'CHUNKED_MAX_PARTS', 205, 1, 2048),
      maxBytes: within(env, 'CHUNKED_MAX_SIZE', 10 * GiB, 1, 10 * GiB),
    },
    prices: {
      perExtraGb: number(env, 'BLOB_STORAGE_PRICE', 0),
      perThousandObjects: number(env, 'BLOB_OBJECTS_PRICE', 0),
    },
    s3: {
      extraBuckets: oneOf(env, 'S3_EXTRA_BUCKETS', ['off', 'on']) === 'on',
      corsOrigins: corsOrigins(env.S3_CORS_ORIGINS ?? ''),
    },
    upkeep: oneOf(env, 'BLOB_UPKEEP', ['on', 'off']) === 'on',
  }
}

function within(env: Environment, name: string, fallback: number, min: number, max: number): number {
  const value = integer(env, name, fallback)
  if (value < min || value > max)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number from ${min} to ${max}.`)
  return value
}

/** `public=*; private=https://a.example https://b.example`: origins by bucket. */
function corsOrigins(text: string): Record<string, string[]> {
  const rows = text.split(';').filter(row => row.trim() !== '')
  return Object.fromEntries(
    rows.map(row => {
      const [, bucket, origins] = /^\s*([a-z0-9][a-z0-9.-]*)\s*=\s*(\S.*?)\s*$/.exec(row) ?? []
      const list = origins?.split(/[\s,]+/) ?? []
      if (!bucket || !list.every(isOrigin))
        throw new Error(
          `The setting S3_CORS_ORIGINS is "${text}"; it must have the form "public=*; private=https://a.example https://b.example".`,
        )
      return [bucket, list]
    }),
  )
}

/** A `*` within a name would match nothing: browsers send whole names. */
const isOrigin = (text: string): boolean =>
  text === '*' || (!text.includes('*') && URL.canParse(text) && new URL(text).origin === text)
