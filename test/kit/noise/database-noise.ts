import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Done, Order, Target } from './database-noise-program.ts'

export interface DatabaseNoise {
  pause(): void
  goOn(): void
  /** Resolves to how often each kind came to its end. */
  stop(): Promise<Done>
}

/** A customer at the limits of a Postgres, in a process of its own: what is measured waits for none of its clients. */
export function databaseNoise(target: Target): DatabaseNoise {
  const program = fork(fileURLToPath(new URL('database-noise-program.ts', import.meta.url)), {
    execArgv: process.execArgv.filter(argument => argument.startsWith('--import')),
  })
  const order = (word: Order) => void program.send(word)
  program.send(target)
  return {
    pause: () => order('pause'),
    goOn: () => order('go on'),
    async stop() {
      const exited = once(program, 'exit')
      const [[done]] = await Promise.all([once(program, 'message'), order('stop')])
      await exited
      return done
    },
  }
}
