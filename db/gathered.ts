import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Db, isUnavailable } from './database.ts'

interface Waiting<In, Out> {
  asked: In
  resolve(answer: Out): void
  reject(error: unknown): void
}

/** Does for many in one statement or transaction what each asked for; as many answers, in their order. */
export type Together<In, Out> = (db: Db, name: string, asked: readonly In[]) => Promise<readonly Out[]>

/** What is asked under a name, which goes together with what others ask under it. */
export type Gathered<In, Out> = (db: Db, name: string, asked: In) => Promise<Out>

interface Line<In, Out> {
  waiting: Waiting<In, Out>[]
  /** Statements under way. */
  running: number
}

export interface Gathering {
  /** Asked by one statement at most. */
  most?: number
  /** Statements of one name under way at most. */
  width?: number
}

/**
 * A statement for many: what is asked under one name while statements for earlier ones are under way goes together into the next. So
 * everybody's statement begins after they asked, nobody waits for more than the one before, and a commit is shared. When the
 * database refuses what several asked, each asks alone, so that what is wrong with one is that one's error.
 */
export function gathered<In, Out>(
  work: Together<In, Out>,
  { most = 256, width = 1 }: Gathering = {},
): Gathered<In, Out> {
  const pools = new WeakMap<Db, Map<string, Line<In, Out>>>()

  async function run(db: Db, name: string, line: Line<In, Out>): Promise<void> {
    line.running++
    // What came in with the first one, from other connections, goes with it.
    await nextTurn()
    while (line.waiting.length > 0) await answer(db, name, line.waiting.splice(0, most))
    line.running--
    if (line.running === 0) pools.get(db)?.delete(name)
  }

  async function answer(db: Db, name: string, turn: Waiting<In, Out>[]): Promise<void> {
    try {
      const asked = turn.map(waiting => waiting.asked)
      const answers = await work(db, name, asked)
      turn.forEach(({ resolve }, n) => void resolve(answers[n]!))
    } catch (error) {
      // A lost connection may hide a commit: nobody may do it twice.
      if (turn.length === 1 || isUnavailable(error)) turn.forEach(({ reject }) => void reject(error))
      else for (const waiting of turn) await answer(db, name, [waiting])
    }
  }

  return (db, name, asked) =>
    new Promise((resolve, reject) => {
      const lines = pools.get(db) ?? new Map<string, Line<In, Out>>()
      pools.set(db, lines)
      const line = lines.get(name) ?? { waiting: [], running: 0 }
      lines.set(name, line)
      line.waiting.push({ asked, resolve, reject })
      if (line.running < width) void run(db, name, line)
    })
}
