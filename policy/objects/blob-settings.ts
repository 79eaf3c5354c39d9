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
  /** False: nothing is deleted automatically, not even expired objects. */
  upkeep: boolean
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
    upkeep: oneOf(env, 'BLOB_UPKEEP', ['on', 'off']) === 'on',
  }
}

function within(env: Environment, name: string, fallback: number, min: number, max: number): number {
  const value = integer(env, name, fallback)
  if (value < min || value > max)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number from ${min} to ${max}.`)
  return value
}
