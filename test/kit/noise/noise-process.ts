import { fork } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

type Order = 'pause' | 'go on' | 'stop'

export interface NoiseProcess<Done> {
  pause(): void
  goOn(): void
  /** Resolves to how often each kind came to its end; rejects when the program has died. */
  stop(): Promise<Done>
  kill(): void
}

/** An account at its worst, in a process of its own: what is measured waits for none of its clients. `program` is a file of this folder. */
export function noiseProcess<Target extends object, Done>(program: string, target: Target): NoiseProcess<Done> {
  const child = fork(fileURLToPath(new URL(`${program}.ts`, import.meta.url)), {
    execArgv: ['--import=tsx'],
  })
  const order = (word: Order) => void child.send(word)
  child.send(target)
  return {
    pause: () => order('pause'),
    goOn: () => order('go on'),
    async stop() {
      const exited = once(child, 'exit').then(([code]) => {
        throw new Error(`The noise has ended with ${code} before it was stopped.`)
      })
      const said = once(child, 'message')
      order('stop')
      const [done] = await Promise.race([said, exited])
      return done
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

/** Whether the noise is to pause or to end. */
export type IsSilent = () => boolean

/** What a program of noise does over and over, concurrently, until it is ordered to pause or to stop. A failed act is repeated. */
type Acts<Target, Done> = (target: Target, isSilent: IsSilent) => { done: Done; acts: (() => Promise<unknown>)[] }

/** Makes this process a program of noise. */
export function makeNoiseOnOrder<Target, Done>(make: Acts<Target, Done>): void {
  process.once('disconnect', () => process.exit())
  // Its clients leave the processors to what they make noise for.
  setPriority(constants.priority.PRIORITY_LOW)
  process.once('message', (target: Target) => {
    let word: Order = 'go on'
    const { done, acts } = make(target, () => word !== 'go on')
    const often = async (act: () => Promise<unknown>) => {
      while (word !== 'stop') {
        if (word === 'go on') await act().catch(() => {})
        await sleep(word === 'pause' ? 50 : 1)
      }
    }
    const loops = acts.map(often)
    process.on('message', async (order: Order) => {
      word = order
      if (order !== 'stop') return
      await Promise.all(loops)
      process.send?.(done, () => process.disconnect())
    })
  })
}
