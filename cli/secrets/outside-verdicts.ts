import {
  checkAi,
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
import { openGitProvider } from '../../workers/adapters/git-provider.ts'
import type { Installation } from '../installation/installation.ts'
import { columns } from '../terminal/terminal.ts'

/** Checks the secrets in `config` at one outside system; for a store also that they reach the same one as those of `before`. Empty if the system is not used. */
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
  if (system === 'ai') return checkAi(config.ai.upstreams)
  return config.captcha ? [await checkCaptcha(config.captcha)] : []
}

/**
 * In containers each process gets only the secrets that it needs: the container in which to ask about a system that this one has no
 * settings of. Null if it has them, also if they say that there is no such system.
 */
export function systemContainer(
  system: OutsideSystem,
  { inContainers, settings }: Pick<Installation, 'inContainers' | 'settings'>,
): string | null {
  const { settings: names, processes } = outsideSecrets[system]
  if (!inContainers || names.some(name => settings[name] !== undefined)) return null
  return `run this command in the container ${processes.join(' or ')}`
}

/** A system whose secrets only another container has, and which was not checked. */
type Line = Verdict | { settings: string; state: 'not known here'; why: string }

/** The verdict of every outside system on the present secrets, in the order of the systems. */
export async function checkAll(installation: Installation, db: Db): Promise<Line[]> {
  const lines = outsideSystems.map(async (system): Promise<Line[]> => {
    const why = systemContainer(system, installation)
    if (why === null) return checkSystem(system, installation.config, null, db)
    return [{ settings: outsideSecrets[system].settings.join(', '), state: 'not known here', why }]
  })
  return (await Promise.all(lines)).flat()
}

/** Secrets that cannot be checked, or not from here, count as accepted. */
export const accepted = ({ state }: Pick<Line, 'state'>): boolean => state !== 'REFUSED' && state !== 'away'

export const verdictLines = (verdicts: readonly Line[]): string =>
  columns(
    verdicts.map(({ settings, state, why }) => [settings, why ? `${state}: ${why}` : state]),
    '',
  )
