import test from 'ava'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../../cli/test-postgres.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { Supervisor } from '../../workers/supervisor.ts'
import { openApiFor } from '../kit/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { postgresLine } from '../kit/postgres-line.ts'
import { rows } from '../kit/rows.ts'
import { Wish } from './commit-kit.ts'

const undo: (() => Promise<unknown>)[] = []
test.after.always('end everything', async () => {
  for (const step of undo.reverse()) await step()
})

/** Whether a commit waits for the standby now. */
async function stalled(db: Db): Promise<boolean> {
  const { rows } = await db.raw(`select 1 from pg_stat_activity where wait_event = 'SyncRep'`)
  return rows.length > 0
}

async function standbys(db: Db, names: string): Promise<void> {
  await db.raw(`alter system set synchronous_standby_names = '${names}'`)
  await db.raw('select pg_reload_conf()')
}

test('a synchronous standby that is away: a push is answered 503, and is nothing when the standby is back', async t => {
  t.timeout(180_000)
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  process.once('exit', () => supervisor.kill())
  undo.push(async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  const url = new URL((await startTestPostgres(supervisor, folder, () => {})).adminUrl)
  url.pathname = `/${templateDatabase}`
  // The commits of the test itself wait for nobody.
  const opened = (commit: string) => {
    const with_ = new URL(url)
    with_.searchParams.set('options', `-c synchronous_commit=${commit}`)
    const db = openDatabase({ url: with_.href, pool: 4, statementTimeoutMs: 2500 })
    undo.push(() => db.destroy())
    return { db, url: with_.href }
  }
  const near = opened('local')
  const { db } = near
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  const line = await postgresLine(url.href)
  undo.push(() => line.close())
  const api = await openApiFor(near, { parts: () => ({ db: opened('on').db }) }, undo)
  const wish = await new Wish('push', line, api).begin()

  await standbys(db, 'away')
  const probe = opened('on').db
  await comesTrue(async () => {
    void probe
      .raw(`insert into settings (name, value) values ('probe', '1') on conflict (name) do update set value = '2'`)
      .catch(() => {})
    return stalled(db)
  })
  const answer = await wish.ask()
  t.is(answer.status, 503, answer.text)
  t.true(await stalled(db), 'it is on its way')

  await standbys(db, '')
  await comesTrue(async () => !(await stalled(db)))
  await wish.undone(t)
})
