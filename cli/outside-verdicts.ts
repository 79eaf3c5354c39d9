import { openObjectStore } from '../activities/object-store.select.ts'
import { checkCaptcha, checkGit, checkMail, checkStore, type Verdict } from '../activities/outside-checks.ts'
import type { Db } from '../db/database.ts'
import { readInstallation } from '../db/installation.ts'
import type { Config } from '../policy/config.ts'
import type { OutsideSystem } from '../policy/outside-secrets.ts'
import { openGitProvider } from '../workers/git-provider.ts'
import { columns } from './terminal.ts'

/** Asks one outside system what it says of its secrets in `config`; of a store also whether those of `before` reach the same. Empty when it is not used. */
export async function checkSystem(
  system: OutsideSystem,
  config: Config,
  before: Config | null,
  db: Db,
): Promise<Verdict[]> {
  if (system === 'store') {
    if (config.objectStore.kind !== 's3') return []
    const id = (await readInstallation(db))?.id ?? null
    const earlier = before && (() => openObjectStore(before.objectStore))
    return [await checkStore(() => openObjectStore(config.objectStore), earlier, id)]
  }
  if (system === 'mail') return config.mail.smtp ? [await checkMail(config.mail.smtp)] : []
  if (system === 'git') return config.gitProvider ? checkGit(() => openGitProvider(config)) : []
  return config.captcha ? [await checkCaptcha(config.captcha)] : []
}

/** What cannot be asked is no reason to refuse it. */
export const accepted = ({ state }: Verdict): boolean => state === 'accepted' || state === 'cannot be asked'

export const verdictLines = (verdicts: readonly Verdict[]): string =>
  columns(
    verdicts.map(({ settings, state, why }) => [settings, why ? `${state}: ${why}` : state]),
    '',
  )
