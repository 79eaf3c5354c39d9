import { createHash, randomBytes } from 'node:crypto'
import { escapeIdentifier } from 'pg'
import { Tree } from '../../../../lib/folders/tree.ts'
import { databaseSeconds } from '../../../../policy/databases/database-steps.ts'
import { type DatabaseContents, DumpCorrupt, dumpPlace, type EngineJob } from '../../contents.ts'
import { type DumpWriter, readDump, writeDump } from '../../dump-files.ts'
import { type DatabaseTraits, EngineUnavailable, type LocalEngine, places } from '../../port.ts'
import {
  type Accounts,
  databaseStatement,
  propertyStatements,
  readAccounts,
  roleStatements,
  storeSettings,
} from './contents/accounts.ts'
import { contentsOfDatabase, readerSettings, type SequenceValues } from './contents/digest.ts'
import { asPlatform, program } from './postgres.ts'
import { loaderPrefix, platformRole } from './postgres-settings.ts'

const { copy: copySeconds } = databaseSeconds

const accountsFile = 'databases.json'
/** The same for those who load a dump by their own means. Never read here. */
const rolesFile = 'roles.sql'
const dumpFile = (number: number): string => `${number}.dump`

/** In `databases.json`. The dump of a database has its number here. */
interface Dumped extends Accounts {
  version: 1
  /** By database: the schema `public` is there. Dumps do not say when it is not. */
  publicSchemas: boolean[]
}

export const postgresContents: DatabaseContents = {
  async dump(engine, job) {
    const accounts = await asPlatform(engine, { seconds: copySeconds, settings: readerSettings }, readAccounts)
    const publicSchemas: boolean[] = []
    const contents: string[] = []
    return writeDump(job, engine.signal, async writer => {
      /** The last database is digested when the dump is complete. */
      const finishAfterLast = async () => {
        if (publicSchemas.length < accounts.databases.length) return
        const all: Dumped = { version: 1, ...accounts, publicSchemas }
        await writer.write(accountsFile, file => file.add(`${JSON.stringify(all, null, 1)}\n`))
        await writer.write(rolesFile, file => file.add(`${roleStatements(accounts).join(';\n')};\n`))
        await writer.finish()
      }
      if (accounts.databases.length === 0) await finishAfterLast()
      for (const [number, { name }] of accounts.databases.entries()) {
        const dumped = async (hasPublicSchema: boolean) => {
          publicSchemas.push(hasPublicSchema)
          await finishAfterLast()
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
      if (isDamage(error)) throw new DumpCorrupt('The dump of Postgres is damaged or incomplete.', { cause: error })
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

/** Options of the programs, with a database whose name may be anything. */
const connection = ({ port }: DatabaseTraits, user: string, database: string): string =>
  Object.entries({
    host: places.run,
    port,
    user,
    dbname: database,
    options: '-c role=none -c default_transaction_read_only=off',
  })
    .map(([name, value]) => `${name}='${String(value).replaceAll(/['\\]/g, '\\$&')}'`)
    .join(' ')

interface OneDump {
  name: string
  number: number
  writer: DumpWriter
  /** Called with whether there is a schema `public`, once its file is written. */
  dumped(hasPublicSchema: boolean): Promise<void>
}

/**
 * Dumps one database and then digests it, both as one transaction sees it. Not at the same time: both would wait for locks of customers, in
 * circles that no engine sees. The file is written from its start to its end, which is why pg_dump gets a pipe.
 */
async function dumpDatabase(
  engine: LocalEngine,
  job: EngineJob,
  { name: database, number, writer, dumped }: OneDump,
): Promise<string> {
  const pg = (name: string) => program(engine.traits.version, name)
  const file = `${dumpPlace}/${dumpFile(number)}`
  const sequences = `${number}.sequences`
  /** The values of sequences that are in the dump: those in the engine may have changed. */
  const steps = [
    `mkfifo /tmp/pipe`,
    `cat /tmp/pipe >> ${file} &`,
    `${pg('pg_dump')} -Fc -Z zstd:1 --no-sync --no-password --lock-wait-timeout=60s --snapshot="$2" --file=/tmp/pipe --dbname="$1"`,
    `wait $!`,
    `${pg('pg_restore')} --list ${file} | { grep -E '^[0-9]+; [0-9]+ [0-9]+ SEQUENCE SET ' || true; } > /tmp/list`,
    `${pg('pg_restore')} --use-list=/tmp/list --file=${dumpPlace}/${sequences} ${file}`,
  ]
  const failures: unknown[] = []
  const contents = await asPlatform(
    engine,
    { seconds: copySeconds, database, settings: readerSettings },
    async client => {
      await client.query('begin isolation level repeatable read read only')
      const { rows } = await client.query(
        `select pg_export_snapshot() as snapshot, to_regnamespace('public') is not null as public`,
      )
      try {
        const from = [connection(engine.traits, platformRole, database), rows[0].snapshot]
        await writer.append(dumpFile(number), () => job.run(['sh', '-ec', steps.join('\n'), 'sh', ...from]))
        const values = sequenceValues(taken(job, sequences))
        await dumped(rows[0].public)
        return await contentsOfDatabase(client, values)
      } catch (error) {
        failures.push(error)
        return null
      }
    },
  )
  if (contents === null) throw failures[0]
  return contents
}

/** The text of a file that a job has written, which is removed. */
function taken(job: EngineJob, name: string): string {
  const tree = new Tree(job.folder)
  try {
    const text = tree.read(name)
    tree.remove(name)
    if (text === null) throw new Error(`The job has not written ${name}.`)
    return text
  } finally {
    tree.close()
  }
}

function sequenceValues(text: string): SequenceValues {
  const calls = text.matchAll(/^SELECT pg_catalog\.setval\('((?:[^']|'')*)', (-?\d+), (true|false)\);$/gm)
  return new Map([...calls].map(([, name, value, called]) => [name!.replaceAll("''", "'"), `${value} ${called}`]))
}

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
  const made = await asOwner([])
  await asOwner(made.map(schema => `revoke create on schema ${schema} from public`))
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
