import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { removeThrowAway, startTestPostgres, throwAwayFolder } from '../../cli/test/test-postgres.ts'
import { CommitInDoubt, isCommitted, transactionName } from '../../db/commits-in-doubt.ts'
import { openDatabase, transaction } from '../../db/database.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { rowCounts, upgradeWithRows } from '../kit/rows/upgrade.ts'

test('after a crash of Postgres the outcome of an earlier transaction is unknown: its id may be reused', async t => {
  t.timeout(120_000)
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  t.teardown(async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {})
  const db = openDatabase({ url: adminUrl, pool: 3 })
  t.teardown(() => db.destroy())
  await upgradeWithRows(db)
  const kept = await rowCounts(db)
  const name = (await transaction(db, trx => transactionName(trx)))!
  t.true(await isCommitted(db, name, undefined))
  const checkpointer = (): Promise<number | undefined> =>
    db.raw(`select pid from pg_stat_activity where backend_type = 'checkpointer'`).then(
      ({ rows }) => rows[0]?.pid,
      () => undefined,
    )
  await db.raw('checkpoint') // servers of tests do not sync what they commit
  const before = await checkpointer()
  // A server process that dies by a signal takes all of the server down, which recovers from its log.
  const { rows } = await db.raw('select pg_backend_pid() as pid')
  process.kill(rows[0].pid, 'SIGKILL')
  for (let now = before; now === undefined || now === before; now = await checkpointer()) await sleep(50)
  await t.throwsAsync(isCommitted(db, name, undefined, performance.now() + 200), { instanceOf: CommitInDoubt })
  t.true(
    await isCommitted(db, (await transaction(db, trx => transactionName(trx)))!, undefined),
    'and of those after it as ever',
  )
  const after = await rowCounts(db)
  const emptied = Object.keys(kept).filter(table => after[table] === 0)
  const unlogged = [
    ...['app_change_epochs', 'app_changes', 'blob_leases', 'database_change_epochs', 'database_changes'],
    ...['domain_change_epochs', 'domain_changes'],
    ...['rate_limits', 'realtime_listeners'],
  ]
  t.deepEqual(emptied, unlogged, 'what ends by itself, or can be read again, is not logged')
  for (const table of emptied) delete kept[table]
  t.like(after, kept)
})
