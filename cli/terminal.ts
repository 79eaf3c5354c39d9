/** Says one line of progress to the person in front. */
export type Say = (line: string) => void

export const sayOnStderr: Say = line => {
  process.stderr.write(`${line}\n`)
}

/** Runs a long step with its name, a sign of life every 10 s, and its duration at the end when it was over 2 s. */
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

/** Two columns with the second aligned. */
export function columns(rows: readonly (readonly [string, string])[], indent = '  '): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `${indent}${left.padEnd(width)}  ${right}`).join('\n')
}
