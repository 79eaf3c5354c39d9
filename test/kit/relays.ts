import { NativeConnection, Worker } from '@temporalio/worker'
import type { ExecutionContext } from 'ava'
import { failuresInARow } from '../../policy/rounds.ts'
import { platformQueue } from '../../workflows/ids.ts'

// What the tests of both relays share, of lanes and of steps to a lower plan.

interface Rounds {
  relay: { round(): Promise<number> }
}

interface LoggedRounds<Id extends string> extends Rounds {
  logged: readonly ({ level: number } & Partial<Record<Id, string>>)[]
}

/** Of these targets the first cannot be woken: a warning names it, the others are woken, and none is due in the next round. */
export async function wakesAllButOne<Id extends string>(
  t: ExecutionContext,
  targets: readonly string[],
  id: Id,
  relayOf: (wake: (id: string) => Promise<void>) => Promise<LoggedRounds<Id>>,
): Promise<void> {
  const [broken] = targets
  const tried: string[] = []
  const { relay, logged } = await relayOf(async target => {
    tried.push(target)
    if (target === broken) throw new Error('exceeded the limit of signals')
  })
  t.is(await relay.round(), targets.length - 1)
  t.deepEqual(tried.toSorted(), targets.toSorted())
  t.deepEqual(
    logged.filter(({ level }) => level === 40).map(line => line[id]),
    [broken],
  )
  t.is(await relay.round(), 0, 'all of them have some time now')
  t.is(tried.length, targets.length)
}

/** With more targets than failures in a row end a round, while Temporal answers none of them. */
export async function endsRoundEarly(
  t: ExecutionContext,
  relayOf: (wake: () => Promise<void>) => Promise<Rounds>,
): Promise<void> {
  let tried = 0
  const { relay } = await relayOf(async () => {
    tried++
    throw new Error('unavailable')
  })
  t.is(await relay.round(), 0)
  t.is(tried, failuresInARow)
}

/** Runs `work` while a worker runs workflows whose task fails. It leaves each attempt but the first to its time limit of 10 s. */
export async function withFailingWorker(
  t: ExecutionContext,
  { address, queuePrefix }: { address: string; queuePrefix: string },
  workflowsPath: string,
  work: () => Promise<void>,
): Promise<void> {
  const connection = await NativeConnection.connect({ address })
  t.teardown(() => connection.close())
  const worker = await Worker.create({ connection, taskQueue: platformQueue(queuePrefix), workflowsPath })
  await worker.runUntil(work)
}
