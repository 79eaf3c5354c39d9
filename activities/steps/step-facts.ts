import type { Db } from '../../db/database.ts'
import { findOperationOfRun, type OperationFacts, readOperationFacts } from '../../db/operations/operation-facts.ts'
import type { StepOf } from '../releases/release.ts'
import { claimOfActivity, lostClaim } from './claims.ts'

/**
 * The rows of the operation that a step names. Rejects with ClaimLost when it is of another application, or another run of a lane works
 * on it: only a run of ours ever gets a claim, so a workflow of somebody else has none.
 */
export async function factsOfStep(db: Db, asked: StepOf): Promise<OperationFacts> {
  const { appId, deploymentId, operationId, number } = asked
  if (!Number.isInteger(number)) throw lostClaim() // it becomes part of names
  const { run } = claimOfActivity()
  const id = operationId ?? (await findOperationOfRun(db, { appId, deploymentId, run }))
  const facts = id === undefined ? undefined : await readOperationFacts(db, id)
  const mine = facts?.claim === run || (facts?.claim === null && facts.running) // without one: begun by an older version
  if (!facts || facts.appId !== appId || !mine) throw lostClaim()
  return facts
}
