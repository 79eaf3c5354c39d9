import { GiB, MiB } from '../../lib/bytes.ts'
import { type Environment, integer, number, oneOf } from '../environment.ts'

/** What an operator decides about blob storage (contract 7.43). */
export interface BlobSettings {
  /** Single uploads of one account that may be on their way at the same time. */
  concurrentUploads: number
  /** Smaller files are refused; 0 = none. */
  minBytes: number
  chunked: ChunkedSettings
  prices: BlobPrices
  /** False: nothing is removed by itself, not even what has expired. */
  upkeep: boolean
}

interface ChunkedSettings {
  /** Chunked uploads that one account may have open. */
  maxOpen: number
  maxParts: number
  /** Of the whole file. */
  maxBytes: number
}

/** For a month, in the operator's currency; told in the account's stats and charged by nobody. */
export interface BlobPrices {
  /** For each GB beyond what the plan includes. */
  perExtraGb: number
  perThousandObjects: number
}

/** Throws an Error that names the setting and what it takes. */
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

function within(env: Environment, name: string, usual: number, min: number, max: number): number {
  const value = integer(env, name, usual)
  if (value < min || value > max)
    throw new Error(`The setting ${name} is "${env[name]}"; it must be a whole number from ${min} to ${max}.`)
  return value
}
