import { statSync } from 'node:fs'
import { dirname } from 'node:path'

/** True when any user may traverse the path to this folder, and the folder itself. */
export function reachableByOthers(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    try {
      if ((statSync(at).mode & 0o001) === 0) return false
    } catch {
      // Missing: we create it ourselves, and open to others.
    }
    if (at === dirname(at)) return true
  }
}
