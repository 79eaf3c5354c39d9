import { copyFileSync, existsSync, readdirSync, renameSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Bounds every `*.log` of a folder to `maxBytes`, keeping `keep` older pieces (`x.log.1` is the newest).
 * The file is copied and emptied, not renamed: its writer holds it open for appending and outlives the supervisor.
 */
export function rotateLogs(folder: string, maxBytes: number, keep: number): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    if (!name.endsWith('.log') || statSync(path).size <= maxBytes) continue
    for (let age = keep - 1; age >= 1; age--) {
      if (existsSync(`${path}.${age}`)) renameSync(`${path}.${age}`, `${path}.${age + 1}`)
    }
    copyFileSync(path, `${path}.1`)
    truncateSync(path, 0)
  }
}
