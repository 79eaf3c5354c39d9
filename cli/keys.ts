import type { Command } from 'commander'
import { createKey, listKeys, revokeKey } from '../db/accounts.ts'
import { isScope, type Scope, scopes } from '../policy/scopes.ts'
import { withInstallation } from './database.ts'
import { columns } from './terminal.ts'
import { userId } from './users.ts'

interface CreateOptions {
  user: string
  scopes?: string
  resources?: string
  name?: string
  json?: boolean
}

export function keysCommand(program: Command): void {
  const keys = program.command('keys').description('API keys')
  keys
    .command('create')
    .description('issue a key; it is shown this once')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--scopes <list>', 'comma-separated; full access when left out')
    .option('--resources <ids>', 'comma-separated ids of applications and databases; all when left out')
    .option('--name <name>')
    .option('--json', 'as one JSON object')
    .action(async ({ user, json, ...options }: CreateOptions) => {
      const granted = scopeList(options.scopes)
      const resources = options.resources ? split(options.resources) : null
      if (resources && granted?.some(scope => scope.startsWith('blob:')))
        throw new Error('Blob scopes cannot be combined with --resources.')
      const { key } = await withInstallation(async ({ config }, db) =>
        createKey(db, config.masterKey, {
          userId: await userId(db, user),
          name: options.name,
          scopes: granted,
          resources,
        }),
      )
      console.log(json ? JSON.stringify({ api_key: key }) : key)
    })
  keys
    .command('list')
    .description('the keys of an account; their texts are not stored')
    .requiredOption('--user <user>', 'id or e-mail address')
    .option('--json', 'as a JSON array')
    .action(async ({ user, json }: { user: string; json?: boolean }) => {
      const rows = await withInstallation(async (_, db) => listKeys(db, await userId(db, user)))
      if (json) return console.log(JSON.stringify(rows))
      const words = rows.map(
        row => `${row.name}, ${row.scopes?.join(',') ?? 'full access'}${row.revoked_at ? ', revoked' : ''}`,
      )
      console.log(
        rows.length
          ? columns(
              rows.map((row, index) => [row.id, words[index] as string]),
              '',
            )
          : 'No keys.',
      )
    })
  keys
    .command('revoke')
    .description('end a key; every process refuses it within a second')
    .argument('<key-id>', 'as shown by keys list')
    .action(async (id: string) => {
      if (!(await withInstallation((_, db) => revokeKey(db, id)))) throw new Error(`There is no live key ${id}.`)
      console.log(`${id} is revoked.`)
    })
}

function scopeList(text: string | undefined): Scope[] | null {
  if (text === undefined) return null
  const named = split(text)
  const unknown = named.filter(name => !isScope(name))
  if (unknown.length || named.length === 0)
    throw new Error(`Unknown scope: ${unknown.join(', ') || '(none)'}. Scopes: ${scopes.join(', ')}`)
  return named.filter(isScope)
}

function split(text: string): string[] {
  return text
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
}
