import { ignoreError } from '../../lib/async/ignore-error.ts'
import { oneLine, printable } from './printable.ts'

/** Shows one line of progress to the user. */
export type Say = (line: string) => void

export const sayOnStderr: Say = line => {
  process.stderr.write(`${printable(line)}\n`)
}

/** For commands that supervise processes: a line that cannot be written, as on a full disk or to a closed terminal, does not end them. */
export function outliveOutput({ stdout, stderr }: Pick<NodeJS.Process, 'stdout' | 'stderr'>): void {
  for (const stream of [stdout, stderr]) stream.on('error', ignoreError('there is nowhere to report it'))
}

/** Runs a long step, with a line of progress every 10 s, and its duration at the end if that was 2 s or more. */
export async function step<T>(say: Say, name: string, work: () => Promise<T>): Promise<T> {
  const started = Date.now()
  const seconds = () => Math.round((Date.now() - started) / 1000)
  const timer = setInterval(() => say(`  ... ${name} (${seconds()} s)`), 10_000)
  try {
    const result = await work()
    if (seconds() >= 2) say(`  ${name}: done in ${seconds()} s`)
    return result
  } finally {
    clearInterval(timer)
  }
}

/** Aligns all columns but the last. */
export function columns(texts: readonly (readonly string[])[], indent = '  '): string {
  const rows = texts.map(row => row.map(oneLine))
  const widths = rows[0]?.map((_, n) => Math.max(...rows.map(row => row[n]?.length ?? 0))) ?? []
  const cells = (row: readonly string[]) =>
    row.map((cell, n) => (n < row.length - 1 ? cell.padEnd(widths[n] ?? 0) : cell))
  return rows.map(row => indent + cells(row).join('  ')).join('\n')
}
