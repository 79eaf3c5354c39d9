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

/**
 * A statement for many: what is asked under one name while a statement for earlier ones is under way goes together into the next,
 * `most` at a time. So everybody's statement begins after they asked, nobody waits for more than the one before, and a commit is
 * shared. When the database refuses what several asked, each asks alone, so that what is wrong with one is that one's error.
 */
export function gathered<In, Out>(work: Together<In, Out>, most = 256): Gathered<In, Out> {
  const pools = new WeakMap<Db, Map<string, Waiting<In, Out>[]>>()

  async function run(db: Db, name: string, lines: Map<string, Waiting<In, Out>[]>): Promise<void> {
    const line = lines.get(name)!
    // What came in with the first one, from other connections, goes with it.
    await nextTurn()
    while (line.length > 0) await answer(db, name, line.splice(0, most))
    lines.delete(name)
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
      const lines = pools.get(db) ?? new Map<string, Waiting<In, Out>[]>()
      pools.set(db, lines)
      const line = lines.get(name)
      if (line) return void line.push({ asked, resolve, reject })
      lines.set(name, [{ asked, resolve, reject }])
      void run(db, name, lines)
    })
}
