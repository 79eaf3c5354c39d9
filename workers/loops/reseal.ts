import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import { listValuesOfOtherKeys, replaceSealed, sealedColumns } from '../../db/sealed-values.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'

export interface ResealOptions {
  db: Db
  keys: SealKeys
  log: Logger
}

/** A round that finds nothing readable would else fill the log. */
const namedRows = 20

/**
 * Seals with the current key what another one has sealed; resolves to the number of values. Each is a transaction of its own and
 * replaces only the bytes that were read, so that changes meanwhile win. What cannot be decrypted is told by its row.
 */
export async function resealOnce({ db, keys, log }: ResealOptions, signal?: AbortSignal): Promise<number> {
  const unreadable: string[] = []
  let resealed = 0
  for (const column of sealedColumns)
    for await (const value of listValuesOfOtherKeys(db, column, keys.current)) {
      if (signal?.aborted) return resealed
      const belongsTo = column.belongsTo(...value.key)
      const text = readable(keys, value.sealed, belongsTo)
      if (text === null) unreadable.push(`${column.table}.${column.column} of ${value.key.join('/')}`)
      else if (await replaceSealed(db, column, value, seal(keys, text, belongsTo))) resealed++
    }
  if (resealed) log.info({ resealed, key: keys.current }, 'reseal: secrets are sealed with the current key now')
  if (unreadable.length)
    log.warn(
      { unreadable: unreadable.length, rows: unreadable.slice(0, namedRows) },
      'reseal: secrets cannot be decrypted; is a key missing from BERTH_SEAL_KEYS?',
    )
  return resealed
}

function readable(keys: SealKeys, sealed: Buffer, belongsTo: string): string | null {
  try {
    return unseal(keys, sealed, belongsTo)
  } catch {
    return null
  }
}
