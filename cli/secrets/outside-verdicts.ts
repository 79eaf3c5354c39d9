import {
  checkCaptcha,
  checkGit,
  checkMail,
  checkStore,
  type Verdict,
} from '../../activities/installation/outside-checks.ts'
import { openObjectStore } from '../../activities/objects/select.ts'
import type { Db } from '../../db/database.ts'
import { readInstallation } from '../../db/installation.ts'
import type { Config } from '../../policy/config.ts'
import { type OutsideSystem, outsideSecrets, outsideSystems } from '../../policy/installation/outside-secrets.ts'
import { openGitProvider } from '../../workers/git-provider.ts'
import type { Installation } from '../installation/installation.ts'
import { columns } from '../terminal/terminal.ts'

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

/**
 * In containers each process gets the secrets that its work asks for, and no other: which container to ask about a system that this
 * one is told nothing of. Null where it is told, also that there is none.
 */
export function askedElsewhere(
  system: OutsideSystem,
  { inContainers, settings }: Pick<Installation, 'inContainers' | 'settings'>,
): string | null {
  const { settings: names, processes } = outsideSecrets[system]
  if (!inContainers || names.some(name => settings[name] !== undefined)) return null
  return `ask in the container ${processes.join(' or ')}`
}

/** A system whose secrets another container has: nothing was asked. */
type Line = Verdict | { settings: string; state: 'not known here'; why: string }

/** What every outside system says of the secrets that are used, in their order. */
export async function checkAll(installation: Installation, db: Db): Promise<Line[]> {
  const lines = outsideSystems.map(async (system): Promise<Line[]> => {
    const why = askedElsewhere(system, installation)
    if (why === null) return checkSystem(system, installation.config, null, db)
    return [{ settings: outsideSecrets[system].settings.join(', '), state: 'not known here', why }]
  })
  return (await Promise.all(lines)).flat()
}

/** What cannot be asked, or not here, is no reason to refuse it. */
export const accepted = ({ state }: Line): boolean => state !== 'REFUSED' && state !== 'away'

export const verdictLines = (verdicts: readonly Line[]): string =>
  columns(
    verdicts.map(({ settings, state, why }) => [settings, why ? `${state}: ${why}` : state]),
    '',
  )
