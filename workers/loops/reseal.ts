import type { Logger } from 'pino'
import type { Db } from '../../db/database.ts'
import { listValuesOfOtherKeys, replaceSealed, sealedColumns } from '../../db/sealed-values.ts'
import { type SealKeys, seal, unseal } from '../../policy/seal.ts'

export interface ResealOptions {
  db: Db
  keys: SealKeys
  log: Logger
}

/** Rows that one log line names: a round in which nothing is readable would otherwise fill the log. */
const maxNamedRows = 20

/**
 * Seals values of other keys with the current key; resolves to their number. Each value has its own transaction and replaces only the
 * bytes that were read, so that concurrent changes win. Values that cannot be decrypted are reported by their row.
 */
export async function resealOnce({ db, keys, log }: ResealOptions, signal?: AbortSignal): Promise<number> {
  const unreadable: string[] = []
  let resealed = 0
  for (const column of sealedColumns)
    for await (const value of listValuesOfOtherKeys(db, column, keys.current)) {
      if (signal?.aborted) return resealed
      const belongsTo = column.belongsTo(...value.key)
      const text = tryUnseal(keys, value.sealed, belongsTo)
      if (text === null) unreadable.push(`${column.table}.${column.column} of ${value.key.join('/')}`)
      else if (await replaceSealed(db, column, value, seal(keys, text, belongsTo))) resealed++
    }
  if (resealed) log.info({ resealed, key: keys.current }, 'reseal: secrets were sealed with the current key')
  if (unreadable.length)
    log.warn(
      { unreadable: unreadable.length, rows: unreadable.slice(0, maxNamedRows) },
      'reseal: secrets cannot be decrypted; is a key missing from BERTH_SEAL_KEYS?',
    )
  return resealed
}

function tryUnseal(keys: SealKeys, sealed: Buffer, belongsTo: string): string | null {
  try {
    return unseal(keys, sealed, belongsTo)
  } catch {
    return null
  }
}
