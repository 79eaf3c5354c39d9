import type { Say } from '../terminal/terminal.ts'

type Process = Pick<NodeJS.Process, 'connected' | 'send'> & {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

/**
 * How a start tells the person who asked for it. Started by `berth up -d`, its output is a log that is kept: progress goes there
 * too, the summary only over the line to that person, for it holds an API key.
 */
export function startReport(process: Process): { say: Say; done(summary: string): void } {
  // The line may be gone by the time all is up, and the log is a log then all the same.
  const isDetached = Boolean(process.connected)
  const send = (word: object) => {
    if (process.connected) process.send?.(word)
  }
  return {
    say(line) {
      process.stderr.write(`${line}\n`)
      send({ say: line })
    },
    done(summary) {
      if (isDetached) send({ summary })
      else process.stdout.write(`${summary}\n`)
    },
  }
}
