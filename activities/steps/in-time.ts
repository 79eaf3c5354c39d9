import type { Db } from '../../db/database.ts'
import { secondsUntilAnswer } from '../../db/operations/operations.ts'
import type { ErrorCode } from '../../policy/errors.ts'
import { refusal } from '../failures.ts'

/** Refuses the success of an operation whose caller has been answered already, with something else; with no caller none is late. */
export async function demandInTime(trx: Db, operationId: string, code: ErrorCode, words: string): Promise<void> {
  if (((await secondsUntilAnswer(trx, operationId)) ?? 0) < 0) throw refusal(code, words)
}
