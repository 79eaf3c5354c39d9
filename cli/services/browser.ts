import type { Say } from '../terminal/terminal.ts'
import { findProgram, installPackages, MissingPart } from './system-packages.ts'

/** As distributions call it, and the builds of its maker. */
const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

/** The browser that is there, by its path; null when there is none. `CHROMIUM` names another one. */
export function findBrowser(env: { CHROMIUM?: string; PATH?: string } = process.env): string | null {
  if (env.CHROMIUM) return env.CHROMIUM
  return names.map(name => findProgram(name, env.PATH)).find(path => path !== null) ?? null
}

/** Chromium of the distribution, which tests drive; installed when missing. Resolves to its path. Rejects with MissingPart. */
export async function browserBinary(say: Say): Promise<string> {
  const found = findBrowser()
  if (found) return found
  await installPackages({ what: 'The browser that tests drive (Chromium)', packages: ['chromium'] }, say)
  const installed = findBrowser()
  if (!installed) throw new MissingPart('Chromium was installed, but is not on the PATH. Name it with CHROMIUM=<path>.')
  return installed
}
