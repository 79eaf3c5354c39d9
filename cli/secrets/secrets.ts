import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type Db, transaction } from '../../db/database.ts'
import { countSealed } from '../../db/sealed-values.ts'
import { type OutsideSystem, outsideSystems } from '../../policy/installation/outside-secrets.ts'
import { firstKeyId, sealKeys } from '../../policy/seal.ts'
import { withInstallation } from '../installation/database.ts'
import { type Installation, loadInstallation } from '../installation/installation.ts'
import { openSecrets, type Secrets, saveSecrets, sealKeysText } from '../installation/secrets.ts'
import { recordAct } from '../ops/operator.ts'
import { confirm } from '../terminal/confirm.ts'
import { columns } from '../terminal/terminal.ts'
import { newValues, outsideWords, requireAccess, rotateOutside } from './outside-rotation.ts'
import { accepted, checkAll, verdictLines } from './outside-verdicts.ts'
import { endsWithMaster, type Rotation, rotations, withNewMaster, withNewPasswords } from './root-rotation.ts'

/** A key as operators see it. */
interface KeyLine {
  key: number
  /** Values in the database that it has sealed. */
  values: number
  state: 'seals' | 'reads' | 'from the next start on' | 'MISSING'
}

const help = `
To rotate: berth secrets rotate, berth down, berth up, and once status shows no values of the old key: berth secrets drop <key>.
Hosts on other machines need the same BERTH_SEAL_KEYS before the platform starts again. Key ${firstKeyId} derives from the root secret and stays.
If the environment of a process may have leaked: do all of this, then berth secrets rotate --master --database, berth down, berth up.
Secrets of outside systems (object store, mail, git provider, captcha, language models): create new ones there, then berth secrets rotate --store, and so on.
For a database of your own, change the password there and in DATABASE_URL: docs/installation.md.`

export function secretsCommand(program: Command): void {
  const secrets = program.command('secrets').addHelpText('after', help)
  secrets
    .command('rotate')
    .description(
      'add a new key; it is used from the next start on, and existing values are re-encrypted within minutes of it',
    )
    .option('--master', 'rotate the root secret instead; API keys and stored data stay valid, sessions and links end')
    .option('--database', 'rotate the passwords of the embedded Postgres instead')
    .option('--store', "replace the object store's key pair instead")
    .option('--mail', 'replace SMTP_URL instead')
    .option('--git', "replace the git provider's key and secrets instead")
    .option('--captcha', "replace the captcha provider's secret instead")
    .option('--ai', 'replace the keys of the language models instead')
    .option('--from <file>', 'with the last five: read lines NAME=value, - for standard input; default: prompt')
    .option('--yes', 'with --master: do not ask for confirmation')
    .option('--json', 'as one JSON object')
    .action(async ({ master, database, yes, json, from, ...chosen }: RotateOptions) => {
      const [system, ...more] = outsideSystems.filter(name => chosen[name])
      if (system) {
        if (more.length > 0 || master || database) throw new Error(`Rotate one at a time: ${systemOptions}.`)
        requireAccess(system)
        const done = await rotateOutside(system, await newValues(system, from))
        console.log(json ? JSON.stringify(done) : outsideWords(done))
        return
      }
      if (from !== undefined) throw new Error(`--from needs ${systemOptions}.`)
      const { dataDir } = installationWithKeys()
      if (master || database) {
        if (master) await confirm(`Rotate the root secret? ${endsWithMaster}`, yes)
        const rotated = await rotateRoot({ master, database })
        console.log(json ? JSON.stringify({ rotated }) : rotatedWords(rotated, dataDir))
        return
      }
      const { key, secrets } = withNewKey(openSecrets(dataDir))
      await withInstallation((_, db) => saveWithRecord(db, dataDir, secrets, { action: 'secrets.rotate', key }))
      console.log(
        json
          ? JSON.stringify({ key })
          : `Key ${key} was added to ${join(dataDir, 'secrets.json')}: back that file up. The key is used from the next start on: berth down, berth up.`,
      )
    })
  secrets
    .command('check')
    .description(
      'check that the object store, mail server, git provider, captcha provider and language models accept the current secrets',
    )
    .option('--json', 'as a JSON array')
    .action(async ({ json }: { json?: boolean }) => {
      const verdicts = await withInstallation(checkAll)
      console.log(json ? JSON.stringify(verdicts) : verdictLines(verdicts) || 'No outside system is configured.')
      if (!verdicts.every(accepted)) throw new Error('Not every secret was accepted.')
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
    .description('remove an old key that the database no longer needs; backups from before its rotation still need it')
    .argument('<key>', 'its number')
    .option('--json', 'as one JSON object')
    .action(async (text: string, { json }: { json?: boolean }) => {
      const { dataDir } = installationWithKeys()
      const key = await withInstallation(async (installation, db) => {
        const key = droppable(keyLines(installation, await countSealed(db)), text)
        const { [key]: _, ...sealKeys } = installation.secrets.sealKeys ?? {}
        await saveWithRecord(db, dataDir, { ...installation.secrets, sealKeys }, { action: 'secrets.drop', key })
        return key
      })
      console.log(json ? JSON.stringify({ dropped: key }) : `Key ${key} was removed.`)
    })
}

const systemOptions = '--store, --mail, --git, --captcha or --ai'

interface RotateOptions extends Partial<Record<OutsideSystem, boolean>> {
  from?: string
  master?: boolean
  database?: boolean
  yes?: boolean
  json?: boolean
}

/** Saves all requested changes in one write: killed before that, nothing has happened; after it, the next start does the rest. */
async function rotateRoot({ master, database }: RotateOptions): Promise<Rotation[]> {
  const { config, dataDir, external } = installationWithKeys()
  const rotated = rotations.filter(name => (name === 'master' ? master : database))
  if (master && process.env.BERTH_MASTER_KEY)
    throw new Error('The root secret of this installation is set in its environment: change BERTH_MASTER_KEY there.')
  if (database && external.postgres)
    throw new Error('Berth does not manage this database: change its passwords there, then DATABASE_URL, and restart.')
  await withInstallation((_, db) =>
    transaction(db, async trx => {
      const current = openSecrets(dataDir)
      const next = database ? withNewPasswords(current) : current
      const secrets = master ? withNewMaster(next, await countSealed(trx), config.sealKeys.current) : next
      await recordAct(trx, { action: 'secrets.rotate', accountId: null, resource: rotated.join(', ') })
      saveSecrets(dataDir, secrets)
    }),
  )
  return rotated
}

function rotatedWords(rotated: readonly Rotation[], dataDir: string): string {
  return [
    `Rotated: ${rotated.join(', ')}. Saved to ${join(dataDir, 'secrets.json')}: back that file up. Used from the next start on: berth down, berth up.`,
    ...(rotated.includes('master') ? [endsWithMaster, 'Hosts on other machines need the new root secret too.'] : []),
  ].join('\n')
}

/** Throws an Error when the keys of this installation are not in its data folder. */
function installationWithKeys(): Installation {
  const installation = loadInstallation(process.env)
  if (process.env.BERTH_SEAL_KEYS || !existsSync(join(installation.runFolder, 'settings.json')))
    throw new Error(
      'The keys of this installation are set in its environment. Change BERTH_SEAL_KEYS there, for every process: 2:<64 hex>,3:<64 hex>',
    )
  return installation
}

/** The secrets with one more key, and its number, which was never used before: the highest key is never dropped. Throws an Error past the last number. */
export function withNewKey(before: Secrets): { key: number; secrets: Secrets } {
  const key = sealKeys(before.masterKey, sealKeysText(before)).current + 1
  const secrets = { ...before, sealKeys: { ...before.sealKeys, [key]: randomBytes(32).toString('hex') } }
  sealKeys(secrets.masterKey, sealKeysText(secrets))
  return { key, secrets }
}

/** Saves the keys in one transaction with the entry in the audit record: what cannot be recorded is not done. */
async function saveWithRecord(db: Db, dataDir: string, secrets: Secrets, { action, key }: KeyAct): Promise<void> {
  await transaction(db, async trx => {
    await recordAct(trx, { action, accountId: null, resource: `key ${key}` })
    saveSecrets(dataDir, secrets)
  })
}

interface KeyAct {
  action: 'secrets.rotate' | 'secrets.drop'
  key: number
}

/** Keys of the last start, keys added since, and missing keys that values refer to. */
export function keyLines({ config, secrets }: Installation, counts: ReadonlyMap<number, number>): KeyLine[] {
  const { current, keys } = config.sealKeys
  const added = Object.keys(secrets.sealKeys ?? {}).map(Number)
  const stateOf = (key: number): KeyLine['state'] => {
    if (key === current) return 'seals'
    if (keys.has(key)) return 'reads'
    return added.includes(key) ? 'from the next start on' : 'MISSING'
  }
  return [...new Set([...keys.keys(), ...added, ...counts.keys()])]
    .sort((a, b) => a - b)
    .map(key => ({ key, values: counts.get(key) ?? 0, state: stateOf(key) }))
}

/** The number of a key that may be removed. Throws an Error with the reason if it may not. */
export function droppable(lines: readonly KeyLine[], text: string): number {
  const line = lines.find(({ key }) => String(key) === text)
  if (!line) throw new Error(`There is no key ${text}. See: berth secrets status`)
  if (line.key === firstKeyId) throw new Error('Key 1 derives from the root secret and cannot be dropped.')
  if (line.state !== 'reads') throw new Error(`Key ${text} is in use, or will be: ${line.state}.`)
  if (line.values > 0) throw new Error(`Key ${text} is still needed: it encrypts ${line.values} values.`)
  return line.key
}

function table(lines: KeyLine[]): string {
  const rows = lines.map(({ key, values, state }) => [String(key), String(values), state])
  return columns([['KEY', 'VALUES', 'STATE'], ...rows], '')
}
