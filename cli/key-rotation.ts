import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type Db, transaction } from '../db/database.ts'
import { countSealed } from '../db/sealed-values.ts'
import { type OutsideSystem, outsideSystems } from '../policy/installation/outside-secrets.ts'
import { firstKeyId, sealKeys } from '../policy/seal.ts'
import { withInstallation } from './installation/database.ts'
import { type Installation, loadInstallation } from './installation/installation.ts'
import { openSecrets, type Secrets, saveSecrets, sealKeysText } from './installation/secrets.ts'
import { recordAct } from './ops/operator.ts'
import { demandPlace, newValues, outsideWords, rotateOutside } from './secrets/outside-rotation.ts'
import { accepted, checkAll, verdictLines } from './secrets/outside-verdicts.ts'
import { endsWithMaster, type Rotation, rotations, withNewMaster, withNewPasswords } from './secrets/root-rotation.ts'
import { confirm } from './terminal/confirm.ts'
import { columns } from './terminal/terminal.ts'

/** One key as operators see it. */
interface KeyLine {
  key: number
  /** Texts in the database that it has sealed. */
  values: number
  state: 'seals' | 'reads' | 'from the next start on' | 'MISSING'
}

const help = `
A rotation: berth secrets rotate, berth down, berth up, and once status shows no values of the old key: berth secrets drop <key>.
Hosts on other machines need the same BERTH_SEAL_KEYS before the platform starts again. Key ${firstKeyId} derives from the root secret and stays.
After somebody may have read the environment of a process: all of this, and then berth secrets rotate --master --database, berth down, berth up.
What outside systems give out (object store, mail, git provider, captcha): make it anew there, then berth secrets rotate --store, and so on.
DATABASE_URL of a database of your own is changed there and in the environment: docs/installation.md.`

export function secretsCommand(program: Command): void {
  const secrets = program
    .command('secrets')
    .description('keys that tokens and variables are encrypted with')
    .addHelpText('after', help)
  secrets
    .command('rotate')
    .description('add a new key; it encrypts from the next start on, and what there is then follows within minutes')
    .option('--master', 'the root secret in its place; API keys and what is stored go on, sessions and links end')
    .option('--database', 'the passwords of the embedded Postgres in its place')
    .option('--store', "in its place: the object store's pair, given out anew there")
    .option('--mail', 'in its place: SMTP_URL with new credentials')
    .option('--git', "in its place: the git provider's key and secrets")
    .option('--captcha', "in its place: the captcha provider's secret")
    .option('--from <file>', 'with these four: lines NAME=value, - for standard input; otherwise you are asked')
    .option('--yes', 'with --master: do not ask')
    .option('--json', 'as one JSON object')
    .action(async ({ master, database, yes, json, from, ...chosen }: RotateOptions) => {
      const [system, ...more] = outsideSystems.filter(name => chosen[name])
      if (system) {
        if (more.length > 0 || master || database)
          throw new Error('One at a time: --store, --mail, --git or --captcha.')
        demandPlace(system)
        const done = await rotateOutside(system, await newValues(system, from))
        console.log(json ? JSON.stringify(done) : outsideWords(done))
        return
      }
      if (from !== undefined) throw new Error('--from goes with --store, --mail, --git or --captcha.')
      const { dataDir } = installationWithKeys()
      if (master || database) {
        if (master) await confirm(`Rotate the root secret? ${endsWithMaster}`, yes)
        const rotated = await rotateRoot({ master, database })
        console.log(json ? JSON.stringify({ rotated }) : rotatedWords(rotated, dataDir))
        return
      }
      const { key, secrets } = withNewKey(openSecrets(dataDir))
      await withInstallation((_, db) => keep(db, dataDir, secrets, { action: 'secrets.rotate', key }))
      console.log(
        json
          ? JSON.stringify({ key })
          : `Key ${key} is in ${join(dataDir, 'secrets.json')}: back it up. It is used from the next start on: berth down, berth up.`,
      )
    })
  secrets
    .command('check')
    .description(
      'ask the object store, mail server, git provider and captcha whether they take the secrets that are used',
    )
    .option('--json', 'as a JSON array')
    .action(async ({ json }: { json?: boolean }) => {
      const verdicts = await withInstallation(checkAll)
      console.log(json ? JSON.stringify(verdicts) : verdictLines(verdicts) || 'No outside system is set up.')
      if (!verdicts.every(accepted)) throw new Error('Not every secret is accepted.')
    })
  secrets
    .command('status')
    .description('how many values each key has encrypted')
    .option('--json', 'as a JSON array')
    .action(async ({ json }: { json?: boolean }) => {
      const lines = await withInstallation(async (installation, db) => keyLines(installation, await countSealed(db)))
      console.log(json ? JSON.stringify(lines) : table(lines))
    })
  secrets
    .command('drop')
    .description('remove an old key that nothing in the database needs; backups from before its rotation still do')
    .argument('<key>', 'its number')
    .option('--json', 'as one JSON object')
    .action(async (text: string, { json }: { json?: boolean }) => {
      const { dataDir } = installationWithKeys()
      const key = await withInstallation(async (installation, db) => {
        const key = droppable(keyLines(installation, await countSealed(db)), text)
        const { [key]: _, ...sealKeys } = installation.secrets.sealKeys ?? {}
        await keep(db, dataDir, { ...installation.secrets, sealKeys }, { action: 'secrets.drop', key })
        return key
      })
      console.log(json ? JSON.stringify({ dropped: key }) : `Key ${key} is dropped.`)
    })
}

interface RotateOptions extends Partial<Record<OutsideSystem, boolean>> {
  from?: string
  master?: boolean
  database?: boolean
  yes?: boolean
  json?: boolean
}

/** One writing for all that is asked for: killed before it, nothing has happened; after it, the next start does the rest. */
async function rotateRoot({ master, database }: RotateOptions): Promise<Rotation[]> {
  const { config, dataDir, external } = installationWithKeys()
  const rotated = rotations.filter(name => (name === 'master' ? master : database))
  if (master && process.env.BERTH_MASTER_KEY)
    throw new Error('The root secret of this installation stands in its environment, as BERTH_MASTER_KEY.')
  if (database && external.postgres)
    throw new Error('This database is not ours: change its passwords there, then DATABASE_URL, and start anew.')
  await withInstallation((_, db) =>
    transaction(db, async trx => {
      const current = openSecrets(dataDir)
      const passed = database ? withNewPasswords(current) : current
      const secrets = master ? withNewMaster(passed, await countSealed(trx), config.sealKeys.current) : passed
      await recordAct(trx, { action: 'secrets.rotate', accountId: null, resource: rotated.join(', ') })
      saveSecrets(dataDir, secrets)
    }),
  )
  return rotated
}

function rotatedWords(rotated: readonly Rotation[], dataDir: string): string {
  return [
    `Rotated: ${rotated.join(', ')}. It is in ${join(dataDir, 'secrets.json')}: back it up. It is used from the next start on: berth down, berth up.`,
    ...(rotated.includes('master') ? [endsWithMaster, 'Hosts on other machines need the new root secret too.'] : []),
  ].join('\n')
}

/** Throws an Error when the keys of this installation are not in its data folder. */
function installationWithKeys(): Installation {
  const installation = loadInstallation(process.env)
  if (process.env.BERTH_SEAL_KEYS || !existsSync(join(installation.runFolder, 'settings.json')))
    throw new Error(
      'The keys of this installation stand in its environment. Change BERTH_SEAL_KEYS there, for every process: 2:<64 hex>,3:<64 hex>',
    )
  return installation
}

/** The secrets with one more key, and its number, which none had before: the highest one is never dropped. Throws an Error past the last number. */
export function withNewKey(before: Secrets): { key: number; secrets: Secrets } {
  const key = sealKeys(before.masterKey, sealKeysText(before)).current + 1
  const secrets = { ...before, sealKeys: { ...before.sealKeys, [key]: randomBytes(32).toString('hex') } }
  sealKeys(secrets.masterKey, sealKeysText(secrets))
  return { key, secrets }
}

/** Writes the keys down, with the act in the audit record: what cannot be recorded is not done. */
async function keep(db: Db, dataDir: string, secrets: Secrets, { action, key }: KeyAct): Promise<void> {
  await transaction(db, async trx => {
    await recordAct(trx, { action, accountId: null, resource: `key ${key}` })
    saveSecrets(dataDir, secrets)
  })
}

interface KeyAct {
  action: 'secrets.rotate' | 'secrets.drop'
  key: number
}

/** Keys that the last start knew, that came since, and that values name although nobody has them. */
export function keyLines({ config, secrets }: Installation, counts: ReadonlyMap<number, number>): KeyLine[] {
  const { current, keys } = config.sealKeys
  const waiting = Object.keys(secrets.sealKeys ?? {}).map(Number)
  const known = (key: number): KeyLine['state'] => {
    if (key === current) return 'seals'
    if (keys.has(key)) return 'reads'
    return waiting.includes(key) ? 'from the next start on' : 'MISSING'
  }
  return [...new Set([...keys.keys(), ...waiting, ...counts.keys()])]
    .sort((a, b) => a - b)
    .map(key => ({ key, values: counts.get(key) ?? 0, state: known(key) }))
}

/** The number of a key that may go. Throws an Error that says why another may not. */
export function droppable(lines: readonly KeyLine[], text: string): number {
  const line = lines.find(({ key }) => String(key) === text)
  if (!line) throw new Error(`There is no key ${text}. See: berth secrets status`)
  if (line.key === firstKeyId) throw new Error('Key 1 derives from the root secret and cannot be dropped.')
  if (line.state !== 'reads') throw new Error(`Key ${text} is in use, or about to be: ${line.state}.`)
  if (line.values > 0) throw new Error(`Key ${text} is needed: ${line.values} values are encrypted with it.`)
  return line.key
}

function table(lines: KeyLine[]): string {
  const rows = lines.map(({ key, values, state }) => [String(key), String(values), state])
  return columns([['KEY', 'VALUES', 'STATE'], ...rows], '')
}
