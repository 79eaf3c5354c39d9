import type { Say } from '../terminal/terminal.ts'
import { findProgram, installPackages } from './system-packages.ts'

/** The distribution's `git`, which fetches the sources of deploys; installed when missing. */
export async function ensureGit(say: Say): Promise<void> {
  if (findProgram('git', process.env.PATH)) return
  await installPackages({ what: 'Git', packages: ['git', 'ca-certificates'] }, say)
}
