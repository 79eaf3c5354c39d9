import type { Db } from '../../db/database.ts'
import { readLogEnd } from '../../db/deploys/deployments.ts'
import type { Failure } from './outcome-words.ts'

/** How the message of `installRelease` begins when its step failed; the code follows, and a full stop. */
const installEnded = 'Installing the dependencies ended with exit code '

const lastLines = 5
const longest = 600

/**
 * The failure with the last lines of the build, for whoever owns it. They are read from the deployment's log, because what an
 * activity throws stands in Temporal's history in clear text, and builds print secrets.
 */
export async function withLastLines(db: Db, deploymentId: string | null, failure: Failure): Promise<Failure> {
  const { code, message } = failure
  if (code !== 'BUILD_FAILED' || deploymentId === null) return failure
  if (!message.startsWith(installEnded) || !/ \d+\.$/.test(message)) return failure
  const lines = (await readLogEnd(db, deploymentId)).trim().split('\n').slice(-lastLines)
  const tail = lines.join(' | ').slice(-longest)
  return tail ? { code, message: `${message.slice(0, -1)}: ${tail}` } : failure
}
