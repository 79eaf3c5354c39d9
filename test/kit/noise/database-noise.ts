import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Done, Order, Target } from './database-noise-program.ts'

export interface DatabaseNoise {
  pause(): void
  goOn(): void
  /** Resolves to how often each kind came to its end; rejects when the program has died. */
  stop(): Promise<Done>
  kill(): void
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
      const exited = once(program, 'exit').then(([code]) => {
        throw new Error(`The noise has ended with ${code} before it was stopped.`)
      })
      const said = once(program, 'message')
      order('stop')
      const [done] = await Promise.race([said, exited])
      return done
    },
    kill: () => void program.kill('SIGKILL'),
  }
}
