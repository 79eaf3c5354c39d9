import { findProgram, installPackages, MissingPart } from '../services/system-packages.ts'
import type { Say } from '../terminal/terminal.ts'

/** The names in distributions, and of the vendor's builds. */
const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

/** The path of an installed browser; null when there is none. `CHROMIUM` overrides it. */
export function findBrowser(env: { CHROMIUM?: string; PATH?: string } = process.env): string | null {
  if (env.CHROMIUM) return env.CHROMIUM
  return names.map(name => findProgram(name, env.PATH)).find(path => path !== null) ?? null
}

/** The distribution's Chromium, which tests drive; installed when missing. Resolves to its path. Rejects with MissingPart. */
export async function browserBinary(say: Say): Promise<string> {
  const present = findBrowser()
  if (present) return present
  await installPackages({ what: 'The browser that tests drive (Chromium)', packages: ['chromium'] }, say)
  const installed = findBrowser()
  if (!installed) throw new MissingPart('Chromium was installed, but is not on the PATH. Set CHROMIUM to its path.')
  return installed
}
