import { statSync } from 'node:fs'
import { dirname } from 'node:path'

/** True when any user may walk down to this folder: every folder on the way, and itself, lets others through. */
export function reachableByOthers(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    try {
      if ((statSync(at).mode & 0o001) === 0) return false
    } catch {
      // Not there yet: we make it ourselves, and open.
    }
    if (at === dirname(at)) return true
  }
}
