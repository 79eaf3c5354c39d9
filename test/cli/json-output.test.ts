import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { Command } from 'commander'
import { aiCommand } from '../../cli/ai/ai.ts'
import { auditCommand } from '../../cli/audit.ts'
import { blobCommand } from '../../cli/blob.ts'
import { databasesCommand } from '../../cli/databases/databases.ts'
import { findingsView } from '../../cli/doctor/findings.ts'
import { downCommand } from '../../cli/down.ts'
import { hostsCommand } from '../../cli/hosts/hosts.ts'
import { platformInfo } from '../../cli/info.ts'
import { loadInstallation } from '../../cli/installation/installation.ts'
import { keysCommand } from '../../cli/keys.ts'
import { mailCommand } from '../../cli/mail.ts'
import { opsCommand } from '../../cli/ops.ts'
import { secretsCommand } from '../../cli/secrets/secrets.ts'
import { usersCommand } from '../../cli/users.ts'
import { verbs } from '../../cli/verbs.ts'
import { queueMail } from '../../db/accounts/mails.ts'
import { admitCall, settleCall } from '../../db/ai/ai-calls.ts'
import { transaction } from '../../db/database.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import { recordHostLeft } from '../../db/hosts/hosts.ts'
import { openReceipt } from '../../db/objects/blob-receipts.ts'
import { newId } from '../../policy/ids.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { ownFolder } from '../kit/folders.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const sections = readFileSync('docs/json-output.md', 'utf8').split('\n### ').slice(1)
const documentedCommands = sections.map(text => /^`(berth .*) --json`\n/.exec(text)?.[1] ?? text)

/** The keys of the first line of keys in the section of a command, or of a row of its table. */
function documented(command: string, row?: string): string[] {
  const section = sections[documentedCommands.indexOf(command)] ?? ''
  const line = section.split('\n').find(text => (row ? text.startsWith(`| \`${row}\``) : /^(`\w+` ?)+$/.test(text)))
  const keys = [...(line ?? '').matchAll(/`(\w+)`/g)].map(([, key]) => key!)
  return row ? keys.slice(1) : keys
}

/** The full names of a command and its subcommands that have the option --json. */
function commandsWithJson(command: Command, path = command.name()): string[] {
  const own = command.options.some(({ long }) => long === '--json') ? [path] : []
  return [...own, ...command.commands.flatMap(sub => commandsWithJson(sub, `${path} ${sub.name()}`))]
}

test('every command with --json is documented, and no other', async t => {
  const program = new Command('berth')
  for (const { load } of Object.values(verbs)) (await load())(program)
  const commands = commandsWithJson(program)
  t.true(commands.length > 25, String(commands.length))
  t.deepEqual(documentedCommands.toSorted(), commands.toSorted())
})

async function shop() {
  const { db, url } = await database
  const make = rows(db)
  await make.host('h1')
  const ana = await make.user()
  const { app } = await make.app(ana.id)
  const queued = await transaction(db, trx =>
    queueDeploy(trx, {
      appId: app.id,
      ownerId: ana.id,
      actor: ana.id,
      trigger: 'webhook',
      revision: 'a'.repeat(40),
      branch: 'main',
      cloneUrl: 'http://git.example/shop.git',
    }),
  )
  return { db, url, userId: ana.id, appId: app.id, operationId: queued!.operationId }
}

/** One call of the AI gateway that was answered, and one in flight. */
async function useAi(userId: string): Promise<void> {
  const { db } = await database
  const budgets = { account: 10_000, key: null, platform: null }
  const call = { userId, keyId: null, tokens: { prompt: 9, answer: 90 }, slots: 2, pacingSeconds: 0, budgets }
  const answered = newId()
  for (const id of [answered, newId()]) await admitCall(db, { ...call, id })
  await settleCall(db, { ...call, id: answered }, { prompt: 9, completion: 3 })
}

test.serial('the check of language models prints the documented keys', async t => {
  const { url } = await database
  const settings = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, AI_UPSTREAM_URL: 'http://127.0.0.1:9/v1' }
  const { stdout } = await operatorHere([aiCommand], settings, 'ai', 'check', '--json')
  const [entry] = JSON.parse(stdout)
  t.deepEqual(Object.keys(entry), documented('berth ai check'))
  t.is(entry.state, 'away')
})

test.serial('info prints the documented keys', async t => {
  const { db, url } = await shop()
  const env = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, BERTH_MASTER_KEY: '00'.repeat(32) }
  const info = await platformInfo(loadInstallation(env), db)
  t.deepEqual(Object.keys(info), documented('berth info'))
})

test('the doctor prints the documented keys', t => {
  t.deepEqual(Object.keys(findingsView([])), documented('berth doctor'))
})

test.serial('the operations print the documented keys, and no whole row of a table', async t => {
  const { url, operationId } = await shop()
  const settings = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const ops = async (...args: string[]) => {
    const { stdout, stderr } = await operatorHere([opsCommand], settings, 'ops', ...args, '--json')
    t.is(stderr, '')
    return JSON.parse(stdout)
  }
  const list = await ops()
  t.deepEqual(list, await ops('list'))
  for (const entry of list) t.deepEqual(Object.keys(entry), documented('berth ops list'))
  const story = await ops('explain', operationId)
  const all = documented('berth ops explain')
  t.deepEqual(Object.keys(story), all)
  t.deepEqual(Object.keys(await ops('show', operationId)), documented('berth ops show'))
  t.deepEqual(all.slice(0, -2), documented('berth ops show'))
  for (const key of ['operation', 'deployment'])
    t.deepEqual(Object.keys(story[key]), documented('berth ops show', key), key)
  t.deepEqual(Object.keys(story.lane), documented('berth ops explain', 'lane'))
  t.is(story.database, null)
  t.deepEqual(
    [...Object.keys(story.app), ...Object.keys(story.host)],
    ['id', 'name', 'status', 'owner_id', 'health', 'id', 'reachable', 'last_seen_at', 'tries'],
  )
  t.is(story.operation.id, operationId)
  t.is(story.before[0].kind, 'create')
  t.regex(story.verdict, /^WAITING/)
})

test.serial('the other commands print the documented keys', async t => {
  const { db, url, userId, appId, operationId } = await shop()
  const folder = ownFolder(t)
  mkdirSync(join(folder, 'files'))
  writeFileSync(join(folder, 'files', 'a.txt'), 'a')
  await rows(db).host('h9')
  await recordHostLeft(db, 'h9')
  await rows(db).databaseHost('h1')
  const { database: rented, operationId: creation } = await rows(db).database(userId)
  await db('operations').where({ id: creation }).update({ state: 'success' })
  await openReceipt(db, 'abcd'.repeat(8), 'expiry')
  await queueMail(db, { userId, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  await useAi(userId)
  const settings = { BERTH_DATA: folder, DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const invoice = ['--number', 'R-17', '--amount', 'EUR 1', '--due', '2030-01-31', '--url', 'https://pay.example.org']
  const loaded = [aiCommand, auditCommand, blobCommand, downCommand, hostsCommand, keysCommand, mailCommand, opsCommand]
  const run = async (...args: string[]) => {
    const { stdout, stderr } = await operatorHere(
      [...loaded, databasesCommand, secretsCommand, usersCommand],
      settings,
      ...args,
      '--json',
    )
    process.exitCode = 0
    t.is(stderr, '', args.join(' '))
    return JSON.parse(stdout)
  }
  for (const [command, ...options] of [
    ['users create', '--email', `${newId()}@example.org`, '--name', 'Ana', '--plan', 'free'],
    ['users list'],
    ['keys create', '--user', userId],
    ['keys list', '--user', userId],
    ['ai usage'],
    ['ai calls'],
    ['audit'],
    ['mail list'],
    ['mail invoice', '--user', userId, ...invoice],
    ['hosts list'],
    ['databases list'],
    ['databases explain', rented.id],
    ['databases attach', rented.id, appId],
    ['hosts forget', 'h9', '--yes'],
    ['ops cancel', operationId],
    ['ops retry', operationId],
    ['ops receipts', '--all'],
    ['ops receipt', 'abcd'],
    ['secrets status'],
    ['blob import', join(folder, 'files'), '--user', userId],
    ['blob verify'],
    ['down'],
  ] as const) {
    const value = await run(...command.split(' '), ...options)
    t.deepEqual(Object.keys(Array.isArray(value) ? value[0] : value), documented(`berth ${command}`), command)
  }
})
