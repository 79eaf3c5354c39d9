import type { Db } from '../../db/database.ts'
import { readLogEnd } from '../../db/deploys/deployments.ts'
import type { Failure } from './failure-outcome.ts'

/** Start of the message of `installRelease` when its step failed; the exit code and a full stop follow. */
const installFailed = 'Installing the dependencies ended with exit code '

const lastLines = 5
const maxCharacters = 600

/**
 * The failure with the last lines of the build, for its owner. They are read from the deployment's log, because what an
 * activity throws is stored in Temporal's history as clear text, and builds print secrets.
 */
export async function withLastLines(db: Db, deploymentId: string | null, failure: Failure): Promise<Failure> {
  const { code, message } = failure
  if (code !== 'BUILD_FAILED' || deploymentId === null) return failure
  if (!message.startsWith(installFailed) || !/ \d+\.$/.test(message)) return failure
  const lines = (await readLogEnd(db, deploymentId)).trim().split('\n').slice(-lastLines)
  const tail = lines.join(' | ').slice(-maxCharacters)
  return tail ? { code, message: `${message.slice(0, -1)}: ${tail}` } : failure
}
