import { readFileSync } from 'node:fs'

const lines = 12
const lineCharacters = 500

/** A sentence with the last lines of a program's log, for the message about a failed start. Throws when there is no such file. */
export function logEnd(path: string): string {
  const last = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-lines)
  return `Its log, ${path}, ends with:\n${last.map(line => line.slice(0, lineCharacters)).join('\n')}`
}
