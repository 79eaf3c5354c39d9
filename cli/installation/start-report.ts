import type { Say } from '../terminal/terminal.ts'
import type { StartPhase } from './start-phase.ts'

type Process = Pick<NodeJS.Process, 'connected' | 'send'> & {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

/**
 * How a start tells the person who asked for it. Started by `berth up -d`, its output is a log that is kept: progress goes there
 * too, the summary only over the line to that person, for it holds an API key. `phase` has the last line
 * until all is up.
 */
export function startReport(process: Process, phase?: StartPhase): { say: Say; done(summary: string): void } {
  // The line may be gone by the time all is up, and the log is a log then all the same.
  const isDetached = Boolean(process.connected)
  let isUp = false
  const send = (word: object) => {
    if (process.connected) process.send?.(word)
  }
  return {
    say(line) {
      process.stderr.write(`${line}\n`)
      if (!isUp) phase?.is(line)
      send({ say: line })
    },
    done(summary) {
      isUp = true
      phase?.over()
      if (isDetached) send({ summary })
      else process.stdout.write(`${summary}\n`)
    },
  }
}
