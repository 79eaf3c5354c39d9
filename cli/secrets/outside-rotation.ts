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
import { accepted, askedElsewhere, checkSystem, verdictLines } from './outside-verdicts.ts'

const restartSeconds = 90

/** New values of one outside system, read from a file, `-` for standard input, or asked of the person in front; never from the command line. */
export async function newValues(system: OutsideSystem, from: string | undefined): Promise<Record<string, string>> {
  if (from !== undefined) return readValues(system, readFileSync(from === '-' ? 0 : from, 'utf8'))
  const { settings } = outsideSecrets[system]
  if (!process.stdin.isTTY)
    throw new Error(
      `Nobody can be asked here: give ${settings.join(', ')} as lines NAME=value with --from <file>, or --from - for standard input.`,
    )
  const lines: string[] = []
  for (const name of settings) {
    const value = await askHidden(`${name} (empty: stays as it is): `)
    if (value) lines.push(`${name}=${value}`)
  }
  return readValues(system, lines.join('\n'))
}

/** What is typed is not shown. Throws an Error when the person leaves (Ctrl+C, Ctrl+D) or the terminal goes away. */
async function askHidden(question: string): Promise<string> {
  // In raw mode the terminal echoes nothing itself; what readline would show of the line is dropped.
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

/** Before anybody is asked for new values. Throws an Error that names the container where the system is known. */
export function demandPlace(system: OutsideSystem): void {
  const where = askedElsewhere(system, loadInstallation(process.env))
  if (where) throw new Error(`This container is not told of that system (--${system}): ${where}.`)
}

export interface OutsideRotation {
  rotated: OutsideSystem
  /** Processes that were started anew with the new values. */
  restarted: string[]
  /** Where the new values have to be written by hand, because this command cannot; null when it has. */
  byHand: string | null
}

/**
 * Has the outside system accept the new values. Where settings stand in an environment that is all. Elsewhere it writes them down beside the audit record, and starts anew, one after the other,
 * what holds them. Throws an Error, and has changed nothing, when a value is refused or nobody answers.
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
    // Only tried: whoever writes them into the environment rotates, and nobody here sees that.
    if (!inFolder) return
    await transaction(db, async trx => {
      await recordAct(trx, { action: 'secrets.rotate', accountId: null, resource: Object.keys(values).join(', ') })
      const secrets = openSecrets(installation.dataDir)
      saveSecrets(installation.dataDir, { ...secrets, outside: withValues(secrets.outside ?? {}, env, values) })
    })
  })
  if (!inFolder) return { rotated: system, restarted: [], byHand: byHandWords(system, Object.keys(values)) }
  return { rotated: system, restarted: await restartHolders(installation, system), byHand: null }
}

/** For people: what was done, and what is left to do. */
export function outsideWords({ restarted, byHand }: OutsideRotation): string {
  if (byHand) return byHand
  const now = restarted.length
    ? `In use by ${restarted.join(', ')}, started anew one after the other.`
    : 'In use from the next start on.'
  return `Accepted, and written to secrets.json: back it up. ${now} Now take the old ones away where they come from; berth secrets check tells what is taken.`
}

const byHandWords = (system: OutsideSystem, names: string[]): string =>
  `The new values are accepted. The settings of this installation stand in its environment: write ${names.join(', ')} into .env, then\n` +
  `  docker compose up --detach --wait --no-deps ${outsideSecrets[system].processes.join(' ')}\n` +
  'It starts anew what has changed and lets requests under way end.'

/** Ends what holds the values, one after the other, and waits until the supervisor has started it anew. Resolves to the names. */
export async function restartHolders(
  { runFolder }: Pick<Installation, 'runFolder'>,
  system: OutsideSystem,
): Promise<string[]> {
  const restarted: string[] = []
  for (const name of outsideSecrets[system].processes) {
    const before = readRecord(runFolder, name)
    if (!before || !isAlive(before)) continue
    await endRecorded(before) // it finishes what is under way
    const until = Date.now() + restartSeconds * 1000
    for (let now = before; now.pid === before.pid || !isAlive(now); now = readRecord(runFolder, name) ?? before) {
      if (Date.now() > until)
        throw new Error(
          `${name} has the new values from its next start on, and did not start within ${restartSeconds} s: berth logs ${name}`,
        )
      await sleep(50)
    }
    restarted.push(name)
  }
  return restarted
}
