import { readFileSync } from 'node:fs'

const lines = 12
const lineCharacters = 500

/** What the query builder says before the reason why the database gave it no connection. */
const poolIsFull = /^Knex: Timeout acquiring a connection\..*?call\?: /

/** A sentence with the last lines of a program's log, for the message about a failed start. Throws when there is no such file. */
export function logEnd(path: string): string {
  const last = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-lines)
  return `Its log, ${path}, ends with:\n${last.map(line => readable(line).slice(0, lineCharacters)).join('\n')}`
}

/** A line of our logs as people read it: `14:16:10 waiting for the database: too many clients`. Any other line as it is. */
function readable(line: string): string {
  try {
    const { time, msg, err } = JSON.parse(line)
    const reason = err?.message?.replace(poolIsFull, '')
    return `${time.slice('2026-11-30T'.length, -'.295Z'.length)} ${[msg, reason].filter(Boolean).join(': ')}`
  } catch {
    return line // a program's own words
  }
}
