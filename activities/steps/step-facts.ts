import type { Db } from '../../db/database.ts'
import { findOperationOfRun, type OperationFacts, readOperationFacts } from '../../db/operations/operation-facts.ts'
import type { StepOf } from '../releases/release.ts'
import { claimOfActivity, lostClaim } from './claims.ts'

/**
 * The rows of the operation that a step names. Rejects with ClaimLost when it is of another application, or when another run of a lane
 * holds it: only our lanes ever get a claim, so a foreign workflow has none.
 */
export async function factsOfStep(db: Db, input: StepOf): Promise<OperationFacts> {
  const { appId, deploymentId, operationId, number } = input
  if (!Number.isInteger(number)) throw lostClaim() // it becomes part of names
  const { run } = claimOfActivity()
  const id = operationId ?? (await findOperationOfRun(db, { appId, deploymentId, run }))
  const facts = id === undefined ? undefined : await readOperationFacts(db, id)
  const claimed = facts?.claim === run || (facts?.claim === null && facts.running) // no claim: started by an older version
  if (!facts || facts.appId !== appId || !claimed) throw lostClaim()
  return facts
}
