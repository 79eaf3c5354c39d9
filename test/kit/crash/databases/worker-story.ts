import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import { type PostgresLine, postgresLine, type Trap } from '../../servers/postgres-line.ts'
import { diesAt } from '../crash-kit.ts'
import { type Failure, forceFailure } from './forced-failure.ts'
import { type Kind, Rental } from './rental.ts'
import type { DatabaseStage } from './stage.ts'
import type { Rentals } from './story.ts'
import { assertNothingLeft, assertTruths } from './truths.ts'

/** What happens to the worker: it dies at a record, or one of its commits is cut. */
export interface WorkerCase {
  kind: Kind
  /** The name of a crash point. */
  point?: string
  /** The commit of a transaction that has sent this: it, or its answer, is lost. */
  commit?: { after: RegExp; loss: Trap['loss'] }
  /** Why the operation fails; omitted = it does not. */
  failure?: Failure
}

/** An operation in which the worker dies, or loses a commit: afterwards everything that must be true is. */
export async function workerSurvives(t: ExecutionContext, stage: DatabaseStage, rentals: Rentals, one: WorkerCase) {
  const { kind, point, commit, failure } = one
  const { platform } = stage
  const name = `redis: ${failure ? `${failure} ` : ''}${kind}, ${point ?? `the commit of ${commit?.after} is ${commit?.loss}`}`
  if (!stage.hosts[0]) await stage.startHost(0)
  if (!stage.worker) await stage.startWorker()
  if (kind === 'create' && rentals[0]) {
    await rentals[0].ask('delete')
    rentals[0] = null
  }
  const rental = rentals[0] ?? (await Rental.open(stage, 'redis'))
  rentals[0] = null // until it has come through
  const kept = await rental.prepare(kind)
  await stage.worker?.kill('SIGKILL')
  let line: PostgresLine | undefined
  let endFailure = async () => {}
  try {
    if (failure) endFailure = await forceFailure(platform.db, rental, failure)
    if (point) await stage.startWorker({ CRASH_POINT: point })
    else {
      line = await postgresLine(platform.base.url)
      await stage.startWorker({ DATABASE_URL: line.url })
    }
    const sprung = line?.trap({ at: /COMMIT;/, after: commit!.after, loss: commit!.loss, manner: 'cut' })
    let after = 0
    const begun = rental.acknowledged.length
    const asked = rental.ask(kind).finally(() => {
      after = rental.acknowledged.length
    })
    asked.catch(() => {})
    if (point) {
      await diesAt(t, stage.worker!, point)
      await stage.startWorker()
    } else await Promise.race([sprung, neverSprung(asked, name)])
    const own = { kind, host: 'h0', ...kept, begun, name, isDoubtful: false }
    const answer = await asked
    if (failure && point !== undefined && !point.includes('takeAnotherPort')) t.not(answer.status, 200, name)
    await assertTruths(t, rental, { ...own, answer, after })
    await rental.rest()
    if (await rental.row()) rentals[0] = rental
    else await assertNothingLeft(stage, 'h0', name)
  } finally {
    await rental.rest()
    await endFailure()
    if (line) {
      await stage.worker?.kill('SIGKILL')
      stage.worker = null
      await line.close()
    }
  }
}

async function neverSprung(asked: Promise<{ status: number; text: string }>, name: string): Promise<never> {
  const { status, text } = await asked
  // Where the server has committed, the API may know it, and answer, before the line has cut the server's answer.
  await sleep(5000)
  throw new Error(`${name}: no such commit; the answer is ${status} ${text}`)
}
