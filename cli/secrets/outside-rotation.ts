import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { transaction } from '../../db/database.ts'
import { parseConfig } from '../../policy/config.ts'
import {
  type OutsideSystem,
  outsideSecrets,
  readValues,
  withValues,
} from '../../policy/installation/outside-secrets.ts'
import { endRecorded, isAlive, readRecord } from '../../workers/supervisor/process-record.ts'
import { withInstallation } from '../installation/database.ts'
import { checkout, type Installation, loadInstallation } from '../installation/installation.ts'
import { openSecrets, saveSecrets } from '../installation/secrets.ts'
import { recordAct } from '../ops/operator.ts'
import { accepted, checkSystem, systemContainer, verdictLines } from './outside-verdicts.ts'

const restartSeconds = 90

/** New values of one outside system, from a file, `-` for standard input, or a prompt; never from the command line. */
export async function newValues(system: OutsideSystem, from: string | undefined): Promise<Record<string, string>> {
  if (from !== undefined) return readValues(system, readFileSync(from === '-' ? 0 : from, 'utf8'))
  const { settings } = outsideSecrets[system]
  if (!process.stdin.isTTY)
    throw new Error(
      `There is no terminal to prompt on: give ${settings.join(', ')} as lines NAME=value with --from <file>, or --from - for standard input.`,
    )
  const lines: string[] = []
  for (const name of settings) {
    const value = await promptHidden(`${name} (empty to keep the current value): `)
    if (value) lines.push(`${name}=${value}`)
  }
  return readValues(system, lines.join('\n'))
}

/** Prompts without echo. Throws an Error when the user aborts (Ctrl+C, Ctrl+D) or the terminal closes. */
async function promptHidden(question: string): Promise<string> {
  // In raw mode the terminal does not echo, and what readline would print is dropped.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('close', () => reject(new Error('Nothing was changed: no value was given.')))
      lines.question('', answer => resolve(answer.trim()))
      process.stderr.write(question)
    })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}

/** Throws an Error, before any prompt, that names the container with access to the system, if this one has none. */
export function requireAccess(system: OutsideSystem): void {
  const container = systemContainer(system, loadInstallation(process.env))
  if (container) throw new Error(`This container has no access to that system (--${system}): ${container}.`)
}

export interface OutsideRotation {
  rotated: OutsideSystem
  /** Processes that were restarted with the new values. */
  restarted: string[]
  /** What to do by hand if this command cannot store the new values; null if it has. */
  byHand: string | null
}

/**
 * Verifies the new values at the outside system. Where settings come from an environment, that is all. Elsewhere it saves them together with an
 * audit entry, and restarts the processes that use them, one at a time. Throws an Error, having changed nothing, if a value is refused or the
 * system does not answer.
 */
export async function rotateOutside(system: OutsideSystem, values: Record<string, string>): Promise<OutsideRotation> {
  const installation = loadInstallation(process.env)
  const inFolder = existsSync(join(installation.runFolder, 'settings.json'))
  const env = { ...process.env, ...installation.settings }
  const next = parseConfig({ ...env, ...values }, checkout)
  await withInstallation(async (_, db) => {
    const verdicts = await checkSystem(system, next, installation.config, db)
    if (verdicts.length === 0) throw new Error(`This installation uses no such system (--${system}).`)
    if (!verdicts.every(accepted)) throw new Error(`Nothing was changed:\n${verdictLines(verdicts)}`)
    // Only verified: the rotation is the change of the environment, which this command does not see.
    if (!inFolder) return
    await transaction(db, async trx => {
      await recordAct(trx, { action: 'secrets.rotate', accountId: null, resource: Object.keys(values).join(', ') })
      const secrets = openSecrets(installation.dataDir)
      saveSecrets(installation.dataDir, { ...secrets, outside: withValues(secrets.outside ?? {}, env, values) })
    })
  })
  if (!inFolder) return { rotated: system, restarted: [], byHand: byHandWords(system, Object.keys(values)) }
  return { rotated: system, restarted: await restartUsers(installation, system), byHand: null }
}

/** For people: what was done, and what remains to do. */
export function outsideWords({ restarted, byHand }: OutsideRotation): string {
  if (byHand) return byHand
  const now = restarted.length
    ? `In use by ${restarted.join(', ')}, restarted one at a time.`
    : 'In use from the next start on.'
  return `Accepted and saved to secrets.json: back it up. ${now} Now revoke the old values at their source, then verify with: berth secrets check`
}

const byHandWords = (system: OutsideSystem, names: string[]): string =>
  `The new values are accepted. The settings of this installation come from its environment: write ${names.join(', ')} into .env, then\n` +
  `  docker compose up --detach --wait --no-deps ${outsideSecrets[system].processes.join(' ')}\n` +
  'This restarts what has changed, after the requests in progress.'

/** Ends the processes that use the values, one at a time, and waits until the supervisor has restarted each. Resolves to their names. */
export async function restartUsers(
  { runFolder }: Pick<Installation, 'runFolder'>,
  system: OutsideSystem,
): Promise<string[]> {
  const restarted: string[] = []
  for (const name of outsideSecrets[system].processes) {
    const before = readRecord(runFolder, name)
    if (!before || !isAlive(before)) continue
    await endRecorded(before) // it finishes requests in progress
    const until = Date.now() + restartSeconds * 1000
    for (let now = before; now.pid === before.pid || !isAlive(now); now = readRecord(runFolder, name) ?? before) {
      if (Date.now() > until)
        throw new Error(
          `${name} uses the new values from its next start on, but did not start within ${restartSeconds} s; see: berth logs ${name}`,
        )
      await sleep(50)
    }
    restarted.push(name)
  }
  return restarted
}
