import type { Say } from '../terminal/terminal.ts'
import { findProgram, installPackages } from './system-packages.ts'

/** `git` of the distribution, which fetches what is deployed from repositories; installed when missing. */
export async function ensureGit(say: Say): Promise<void> {
  if (findProgram('git', process.env.PATH)) return
  await installPackages({ what: 'Git', packages: ['git', 'ca-certificates'] }, say)
}
