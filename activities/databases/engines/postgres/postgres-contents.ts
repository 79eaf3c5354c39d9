import { createHash, randomBytes } from 'node:crypto'
import { escapeIdentifier } from 'pg'
import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { type DatabaseContents, DumpCorrupt, dumpPlace, type EngineJob } from '../../contents.ts'
import { readDump, writeDump } from '../../dump-files.ts'
import { EngineUnavailable, type LocalEngine } from '../../port.ts'
import {
  type Accounts,
  databaseStatement,
  propertyStatements,
  readAccounts,
  roleStatements,
  storeSettings,
} from './contents/accounts.ts'
import { contentsOfDatabase, readerSettings } from './contents/digest.ts'
import { connection, dumpDatabase, dumpFile } from './contents/dump.ts'
import { asPlatform, program } from './postgres.ts'
import { loaderPrefix, platformRole } from './postgres-settings.ts'

const { copy: copySeconds } = databaseSeconds

const accountsFile = 'databases.json'
/** The same for those who load a dump by their own means. Never read here. */
const rolesFile = 'roles.sql'

/** In `databases.json`. The dump of a database has its number here. */
interface Dumped extends Accounts {
  version: 1
  /** By database: the schema `public` is there. Dumps do not say when it is not. */
  publicSchemas: boolean[]
}

export const postgresContents: DatabaseContents = {
  async dump(engine, job) {
    const accounts = await asPlatform(engine, { seconds: copySeconds, settings: readerSettings }, readAccounts)
    const [publicSchemas, contents]: [boolean[], string[]] = [[], []]
    return writeDump(job, engine.signal, async writer => {
      /** The last database is digested when the dump is complete. */
      const finishAfterLast = async () => {
        if (publicSchemas.length < accounts.databases.length) return
        const all: Dumped = { version: 1, ...accounts, publicSchemas }
        await writer.write(accountsFile, file => file.add(`${JSON.stringify(all, null, 1)}\n`))
        await writer.write(rolesFile, file => file.add(`${roleStatements(accounts).join(';\n')};\n`))
        await writer.finish()
      }
      await finishAfterLast()
      for (const [number, { name }] of accounts.databases.entries()) {
        const dumped = (hasPublicSchema: boolean) => {
          publicSchemas.push(hasPublicSchema)
          return finishAfterLast()
        }
        contents.push(await dumpDatabase(engine, job, { name, number, writer, dumped }))
      }
      return digestOf(accounts, contents)
    })
  },

  async loadBeforeStart() {},

  async load(engine, job) {
    try {
      await load(engine, job, await readDumped(job, engine.signal))
    } catch (error) {
      if (isDamage(error))
        throw new DumpCorrupt(`The dump of Postgres is damaged or incomplete: ${reasonOf(error)}`, { cause: error })
      throw error
    }
  },

  async digest(engine) {
    const accounts = await asPlatform(engine, { seconds: copySeconds, settings: readerSettings }, readAccounts)
    const contents: string[] = []
    for (const { name: database } of accounts.databases)
      contents.push(
        await asPlatform(engine, { seconds: copySeconds, database, settings: readerSettings }, async client => {
          await client.query('begin isolation level repeatable read read only')
          return contentsOfDatabase(client, null)
        }),
      )
    return digestOf(accounts, contents)
  },
}

const digestOf = (accounts: Accounts, contents: string[]): string =>
  createHash('sha256')
    .update(JSON.stringify([accounts, contents]))
    .digest('hex')

async function load(engine: LocalEngine, job: EngineJob, dumped: Dumped): Promise<void> {
  const loader = `${loaderPrefix}${randomBytes(8).toString('hex')}`
  const own = escapeIdentifier(loader)
  const { databases, roles } = dumped
  const makeRoles = roleStatements(dumped)
  const makeDatabases = databases.map(databaseStatement)
  const properties = databases.flatMap(propertyStatements)
  await asPlatform(engine, { seconds: copySeconds }, async client => {
    const { databases: present } = await readAccounts(client)
    for (const { name } of present) await client.query(`drop database ${escapeIdentifier(name)} with (force)`)
    for (const statement of makeRoles) await client.query(statement)
    // It passes by policies as the platform's role does, but is no superuser.
    await client.query(`create role ${own} login inherit bypassrls`)
    for (const { name } of roles)
      await client.query(`grant ${escapeIdentifier(name)} to ${own} with inherit true, set true`)
    for (const statement of makeDatabases) await client.query(statement)
  })
  for (const number of databases.keys()) await loadDatabase(engine, job, dumped, number, loader)
  const refused = await asPlatform(engine, { seconds: copySeconds }, async client => {
    await client.query(`drop role ${own}`)
    for (const statement of properties) await client.query(statement)
    return storeSettings(client, dumped.settings)
  })
  if (refused.length > 0) throw new SyntaxError(`Customers cannot have stored ${refused}.`)
}

/** Schemas of the customer, `public` too. */
const schemas = `select quote_ident(nspname) as schema from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'`

/**
 * Loads as a role with the rights of all the customer's, and never as a superuser what could call a function of the customer: a check of a
 * table, for instance. Owners need rights in schemas only while objects are given to them, so everyone has these until rights are loaded.
 */
async function loadDatabase(engine: LocalEngine, job: EngineJob, dumped: Dumped, number: number, loader: string) {
  const { name: database, owner } = dumped.databases[number]!
  const restore = `${program(engine.traits.version, 'pg_restore')} --no-password --exit-on-error`
  const file = `${dumpPlace}/${dumpFile(number)}`
  const list = (grep: string) =>
    `${restore} --list ${file} > /tmp/all\n{ grep -E ${grep} /tmp/all || true; } > /tmp/list`
  const kind = (kinds: string) => `'^[0-9]+; [0-9]+ [0-9]+ (${kinds}) '`
  const listed = (to: string) => `${restore} --use-list=/tmp/list --dbname="${to}" ${file}`
  const rights = 'ACL|DEFAULT ACL'
  const views = 'MATERIALIZED VIEW DATA'
  const run = (steps: string[]) =>
    job.run([
      ...['sh', '-ec', steps.join('\n'), 'sh'],
      ...[loader, platformRole].map(user => connection(engine.traits, user, database)),
    ])
  const own = escapeIdentifier(loader)
  const asOwner = (work: string[]) =>
    asPlatform(engine, { seconds: copySeconds, database, settings: readerSettings }, async client => {
      for (const statement of work) await client.query(statement)
      return (await client.query(schemas)).rows.map(({ schema }) => schema as string)
    })
  await asOwner([
    ...(dumped.publicSchemas[number] === false ? ['drop schema public'] : ['grant create on schema public to public']),
    `grant create on database ${escapeIdentifier(database)} to public`,
    `alter default privileges for role ${own} grant create on schemas to public`,
  ])
  await run([list(`-v ${kind(`${rights}|${views}`)}`), listed('$1')])
  const schemaNames = await asOwner([])
  await asOwner(schemaNames.map(schema => `revoke create on schema ${schema} from public`))
  await run([list(kind(rights)), listed('$2'), list(kind(views)), listed('$1')])
  await asOwner([`reassign owned by ${own} to ${escapeIdentifier(owner)}`, `drop owned by ${own}`])
}

async function readDumped(job: EngineJob, signal?: AbortSignal): Promise<Dumped> {
  return readDump(job.folder, signal, reader => {
    const dumped = JSON.parse(reader.text(accountsFile)) as Dumped
    const lists = [dumped?.roles, dumped?.memberships, dumped?.databases, dumped?.settings, dumped?.publicSchemas]
    if (dumped?.version === 1 && lists.every(Array.isArray)) return dumped
    throw new SyntaxError(`${accountsFile} is no list of databases.`)
  })
}

const maxReason = 300

/** The first line that the engine, or the program that loads, reports. */
function reasonOf(error: unknown): string {
  const { message } = error as Error
  const [, reason = message] = /pg_restore: error: (.*)/.exec(message) ?? []
  const [line = ''] = reason.split('\n', 1)
  return line.length > maxReason ? `${line.slice(0, maxReason)} …` : line
}

/** Troubles of the engine or the machine, which a dump has no part in. */
const troubles =
  /connection to server|server closed the connection|terminating connection|No space left|could not extend file|out of memory/
/** The engine refused a statement that the dump led to: data, names or syntax. */
const refusedStatement = /^(0[LP]|2|42)/

function isDamage(error: unknown): boolean {
  if (error instanceof SyntaxError || error instanceof TypeError) return true
  const { cause, message } = error as Error & { cause?: Error & { code?: string } }
  if (error instanceof EngineUnavailable) return refusedStatement.test(cause?.code ?? '')
  return error instanceof Error && message.includes('ended with exit code 1:') && !troubles.test(message)
}
