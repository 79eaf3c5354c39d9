import { pino } from 'pino'

/** A log of every level whose text a test can search. */
export function logSink() {
  let text = ''
  const log = pino(
    { level: 'trace' },
    {
      write: line => {
        text += line
      },
    },
  )
  return { log, text: () => text }
}

/** A log from `info` on whose lines a test can read. */
export function logLines<Line>() {
  const lines: (Line & { level: number; msg: string })[] = []
  return { log: pino({ level: 'info' }, { write: line => lines.push(JSON.parse(line)) }), lines }
}
