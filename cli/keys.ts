import type { Command } from 'commander'
import { createKey, type KeyRow, listKeys, revokeKey } from '../db/accounts/accounts.ts'
import { transaction } from '../db/database.ts'
import { isShownName } from '../lib/shown-names.ts'
import { isScope, type Scope, scopes } from '../policy/accounts/scopes.ts'
import { resourceIdPattern } from '../policy/ids.ts'
import { prefixLimits } from '../policy/objects/prefix-limits.ts'
import { withInstallation } from './installation/database.ts'
import { recordAct } from './ops/operator.ts'
import { columns } from './terminal/terminal.ts'
import { userId } from './users.ts'

interface CreateOptions {
  user: string
  scopes?: string
  resources?: string
  prefixes?: string
  aiTokensPerDay?: string
  name?: string
  json?: boolean
}

export function keysCommand(program: Command): void {
  const keys = program.command('keys')
  keys
    .command('create')
    .description('create a key; it is shown only once')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--scopes <list>', 'comma-separated; default: full access')
    .option('--resources <ids>', 'comma-separated ids of applications and databases; default: all')
    .option('--prefixes <list>', 'comma-separated folders of objects; default: all')
    .option(
      '--ai-tokens-per-day <n>',
      "daily tokens at the AI gateway, with --scopes ai:chat; default: as many as the account's plan grants",
    )
    .option('--name <name>', 'a name for the key', 'default')
    .option('--json', 'as one JSON object')
    .action(async ({ user, json, ...options }: CreateOptions) => {
      const limits = limitsOf(options)
      const name = options.name?.trim()
      if (name !== undefined && !isShownName(name))
        throw new Error('--name must be one line of visible characters in their written order.')
      const created = await withInstallation(({ config }, db) =>
        transaction(db, async trx => {
          const accountId = await userId(trx, user)
          const { id, key } = await createKey(trx, config.masterKey, {
            userId: accountId,
            name,
            ...limits,
          })
          await recordAct(trx, { action: 'keys.create', accountId, resource: id })
          return { key_id: id, api_key: key }
        }),
      )
      console.log(json ? JSON.stringify(created) : created.api_key)
    })
  keys
    .command('list')
    .description('the keys of an account, without the keys themselves, which are not stored')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--json', 'as a JSON array')
    .action(async ({ user, json }: { user: string; json?: boolean }) => {
      const rows = await withInstallation(async (_, db) => listKeys(db, await userId(db, user)))
      if (json) return console.log(JSON.stringify(rows))
      const lines = rows.map(row => [row.id, `${row.name}, ${rightsOf(row)}${row.revoked_at ? ', revoked' : ''}`])
      console.log(rows.length > 0 ? columns(lines, '') : 'No keys.')
    })
  keys
    .command('revoke')
    .description('revoke a key; every process refuses it within a second')
    .argument('<key-id>', 'as shown by keys list')
    .action(async (id: string) => {
      await withInstallation((_, db) =>
        transaction(db, async trx => {
          const accountId = await revokeKey(trx, id)
          if (accountId === undefined) throw new Error(`There is no active key ${id}.`)
          await recordAct(trx, { action: 'keys.revoke', accountId, resource: id })
        }),
      )
      console.log(`${id} is revoked.`)
    })
}

/** The limits of a key. Throws an Error that names an invalid option. */
function limitsOf(options: Omit<CreateOptions, 'user' | 'name' | 'json'>) {
  const granted = scopeList(options.scopes)
  const resources = options.resources === undefined ? null : split(options.resources)
  if (resources && (resources.length === 0 || !resources.every(id => resourceIdPattern.exec(id)?.[1] === id)))
    throw new Error('--resources must be ids of applications and databases: 24 or 32 characters from 0 to f.')
  if (resources && granted?.some(scope => scope.startsWith('blob:')))
    throw new Error('Blob scopes cannot be combined with --resources.')
  const folders = options.prefixes === undefined ? null : split(options.prefixes)
  const prefixes = folders && prefixLimits(folders)
  if (prefixes === undefined || prefixes?.length === 0)
    throw new Error('--prefixes must be folders, such as images/2030.')
  return { scopes: granted, resources, prefixes, aiTokensPerDay: tokensFrom(options.aiTokensPerDay, granted) }
}

/** A key with full access could replace itself by one without a limit. */
function tokensFrom(text: string | undefined, granted: readonly Scope[] | null): number | null {
  if (text === undefined) return null
  if (!granted?.includes('ai:chat')) throw new Error('--ai-tokens-per-day needs --scopes with ai:chat.')
  if (!/^[1-9]\d{2,14}$/.test(text)) throw new Error('--ai-tokens-per-day must be a whole number from 100.')
  return Number(text)
}

function rightsOf({ scopes, resources, prefixes, expires_at, ai_tokens_per_day }: KeyRow): string {
  const rights = [scopes?.join(',') ?? 'full access']
  if (resources) rights.push(`only of ${resources.join(',')}`)
  if (prefixes) rights.push(`only below ${prefixes.join(',')}`)
  if (ai_tokens_per_day !== null) rights.push(`${ai_tokens_per_day} tokens of the AI gateway a day`)
  if (expires_at) rights.push(`until ${expires_at.toISOString().slice(0, 16)}`)
  return rights.join(', ')
}

function scopeList(text: string | undefined): Scope[] | null {
  if (text === undefined) return null
  const names = split(text)
  const unknown = names.filter(name => !isScope(name))
  if (unknown.length || names.length === 0)
    throw new Error(`Unknown scope: ${unknown.join(', ') || '(none)'}. Scopes: ${scopes.join(', ')}`)
  return names.filter(isScope)
}

function split(text: string): string[] {
  return text
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
}
