import type { Say } from '../terminal/terminal.ts'
import type { StartPhase } from './start-phase.ts'

type Process = Pick<NodeJS.Process, 'connected' | 'send'> & {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

/**
 * How a start reports to the person who requested it. With `berth up -d` its output is a log file: progress goes there too, but the
 * summary holds an API key and is only sent to that person. `phase` has the last line until everything is up.
 */
export function startReport(process: Process, phase?: StartPhase): { say: Say; done(summary: string): void } {
  // The connection may be closed by the time everything is up; the output is a log nevertheless.
  const isDetached = Boolean(process.connected)
  let isUp = false
  const send = (message: object) => {
    if (process.connected) process.send?.(message)
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
