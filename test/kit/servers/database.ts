import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { memoryFolder, removeThrowAway, startTestPostgres, templateDatabase } from '../../../cli/test/test-postgres.ts'
import { type Db, openDatabase } from '../../../db/database.ts'
import { startTicks } from '../../../lib/process-stat.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'
import { comesTrue } from '../comes-true.ts'
import { closesAll } from '../left-open.ts'

export interface TestDatabase {
  db: Db
  url: string
}

/**
 * Call it once at the top level of a test file: a migrated database of its own, cloned from the template of the test run and
 * dropped after the file. A file that is run alone, without `./berth test`, starts a throw-away cluster for itself, and so does one that
 * needs an `ownServer`: numbers of transactions, and which of them are open, are of the whole server. One that is to crash is `durable`.
 */
export function testDatabase({ ownServer = false, durable = false } = {}): Promise<TestDatabase> {
  const undo: (() => Promise<unknown>)[] = []
  test.after.always('drop the test database', async () => {
    for (const step of undo.reverse()) await step()
  })
  const database = cloneTemplate(undo, ownServer || durable, durable)
  test.before('clone the test database', async () => {
    await database
  })
  return database
}

async function cloneTemplate(
  undo: (() => Promise<unknown>)[],
  ownServer: boolean,
  durable: boolean,
): Promise<TestDatabase> {
  const shared = ownServer ? undefined : process.env.TEST_DATABASE_URL
  const adminUrl = shared ?? (await startOwnCluster(undo, durable))
  const admin = openDatabase({ url: adminUrl, pool: 1, statementTimeoutMs: 60_000 })
  const name = `test_${randomBytes(8).toString('hex')}`
  // A copy of its files takes a third of the processor time of a copy through the log, which is the default.
  await admin.raw('create database ?? template ?? strategy file_copy', [name, templateDatabase])
  undo.push(async () => {
    const left = await leftConnected(admin, name)
    await admin.raw('drop database if exists ?? with (force)', [name])
    await admin.destroy()
    const message = `Left connected to the database by ${test.meta.file}: ${left.join(', ')}`
    if (left.length > 0 && closesAll(test.meta.file)) throw new Error(message)
    if (left.length > 0) process.stderr.write(`${message}\n`)
  })
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  const patient = { waitMs: 30_000, idleTransactionMs: 0 } // tests hold locks
  const db = openDatabase({ url: url.href, pool: 10, applicationName: 'berth-test', ...patient })
  undo.push(() => db.destroy())
  return { db, url: url.href }
}

/** The connections that are still open to a database after all should be closed: pools and connections that were not ended. */
async function leftConnected(admin: Db, name: string): Promise<string[]> {
  const seconds = closesAll(test.meta.file) ? 10 : 1
  for (const deadline = performance.now() + seconds * 1000; ; await sleep(20)) {
    const { rows } = await admin.raw(
      `select application_name || ', last asked: ' || left(query, 100) as who
         from pg_stat_activity where datname = ? and backend_type = 'client backend'`,
      [name],
    )
    if (rows.length === 0 || performance.now() > deadline) return rows.map(({ who }: { who: string }) => who)
  }
}

async function startOwnCluster(undo: (() => Promise<unknown>)[], durable: boolean): Promise<string> {
  const folder = memoryFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  // A run that times out is ended by a signal, and never reaches its hooks.
  process.once('SIGTERM', () => process.exit(143))
  process.once('exit', () => supervisor.kill())
  undo.push(async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  return (await startTestPostgres(supervisor, folder, () => {}, durable)).adminUrl
}

/**
 * Crashes the server of a `durable` test database, as `pg_ctl stop -m immediate` does, and resolves once it has recovered from its log: what
 * was committed is there, and tables that are not logged are empty. `whenDown` is called as soon as it has ended.
 */
export async function crashPostgres(db: Db, whenDown = () => {}): Promise<void> {
  const { rows } = await db.raw('show data_directory')
  const firstProcess = async () =>
    (await readFile(join(rows[0].data_directory, 'postmaster.pid'), 'utf8')).split('\n')[0]
  const before = await firstProcess()
  process.kill(Number(before), 'SIGQUIT')
  await comesTrue(() => startTicks(Number(before)) === null)
  whenDown()
  await comesTrue(async () => (await firstProcess().catch(() => before)) !== before)
  await comesTrue(() => db.raw('select 1').then(Boolean, () => false))
}
