import type { Command } from 'commander'
import { listOperatedDatabases } from '../../db/databases/database-operator.ts'
import { listHosts } from '../../db/hosts/hosts.ts'
import { unknownHost } from '../hosts/unknown-host.ts'
import { withInstallation } from '../installation/database.ts'
import { limitFrom } from '../terminal/options.ts'
import { userId } from '../users.ts'
import { actCommands } from './acts.ts'
import { attachDatabase } from './attachment.ts'
import { databaseExplanation, storyView } from './database-explanation.ts'
import { databaseIdFrom, idFrom, idWords } from './database-id.ts'
import { databaseTable, databaseView } from './database-list.ts'
import { readDatabaseStory } from './database-story.ts'
import { drillCommand } from './drills.ts'
import { upgradeCommand } from './upgrades.ts'

interface ListOptions {
  user?: string
  host?: string
  limit: string
  json?: boolean
}

interface AttachOptions {
  name?: string
  force?: boolean
  json?: boolean
}

const help = `
Examples:
  berth databases list --host h2                  the databases of one host, with their state
  berth databases explain 3fd1                    why a database is down, and what to do
  berth databases attach 3fd1 65aa --name CACHE   the application gets CACHE_URL at its next restart
  berth databases undo 3fd1                       return to the data before the last restore
  berth databases upgrade --all --dry-run         which databases would be upgraded
  berth databases drill --list                    evidence that snapshots can be restored
Operations of a database: berth ops list --database <id>. Accounts create, stop and delete databases through the API.`

const attachHelp = `
The variable is <NAME>_URL; NAME is the name of the database in upper case, with _ for everything except letters and digits.
The URL contains the password, so it is never printed. Nothing is restarted: the application reads it at its next start or restart.
After the owner has reset the password, attach the database again.`

export function databasesCommand(program: Command): void {
  const databases = program.command('databases').addHelpText('after', help)
  databases
    .command('list', { isDefault: true })
    .description('every database, newest first: owner, engine, host, state, expiry of its certificate')
    .option('--user <user>', 'only those of an account: id or e-mail address')
    .option('--host <name>', 'only those of a host')
    .option('--limit <n>', 'maximum number of entries', '100')
    .option('--json', 'as a JSON array')
    .action(list)
  databases
    .command('explain')
    .description('everything about one database: what is wrong, what to do, its operations, the end of its log')
    .argument('<id>', idWords)
    .option('--json', 'as one JSON object')
    .action(explain)
  databases
    .command('attach')
    .description('write the URL of a database into the variables of an application of the same account')
    .argument('<database>', idWords)
    .argument('<app>', idWords)
    .option('--name <name>', 'the variable is <name>_URL; default: from the name of the database')
    .option('--force', 'replace a variable of this name that the application already has')
    .option('--json', 'as one JSON object, without the URL')
    .addHelpText('after', attachHelp)
    .action(attach)
  actCommands(databases)
  upgradeCommand(databases)
  drillCommand(databases)
}

async function list({ user, host, limit, json }: ListOptions): Promise<void> {
  const max = limitFrom(limit)
  await withInstallation(async (_, db) => {
    const hosts = new Map((await listHosts(db)).map(row => [row.id, row]))
    if (host !== undefined && !hosts.has(host)) throw unknownHost(host, hosts.values())
    const ownerId = user === undefined ? undefined : await userId(db, user)
    const rows = await listOperatedDatabases(db, { ownerId, hostId: host, limit: max })
    const now = new Date()
    console.log(
      json
        ? JSON.stringify(rows.map(row => databaseView(row, hosts.get(row.host_id), now)))
        : databaseTable(rows, hosts, now),
    )
  })
}

async function explain(start: string, { json }: { json?: boolean }): Promise<void> {
  await withInstallation(async (installation, db) => {
    const id = await databaseIdFrom(db, start)
    const story = await readDatabaseStory(installation, db, id)
    if (!story) throw new Error(`The database ${id} was deleted a moment ago.`)
    const now = new Date()
    console.log(json ? JSON.stringify(storyView(story, now)) : databaseExplanation(story, now))
  })
}

async function attach(database: string, app: string, { name, force = false, json }: AttachOptions): Promise<void> {
  await withInstallation(async (installation, db) => {
    const databaseId = await databaseIdFrom(db, database)
    const appId = await idFrom(db, 'app', app)
    if (!appId) throw new Error(`There is no application "${app}".`)
    const attached = await attachDatabase(installation, db, { databaseId, appId, name, force })
    const { variable, replaced, note } = attached
    if (json) return console.log(JSON.stringify({ database: databaseId, app: appId, variable, replaced, note }))
    const words = `${variable} of application ${attached.app.name} ${replaced ? 'now has' : 'has'} the URL of database ${attached.database.name}.`
    console.log(
      [words, 'It takes effect at the next start or restart of the application; nothing was restarted.', note]
        .filter(line => line !== null)
        .join('\n'),
    )
  })
}
