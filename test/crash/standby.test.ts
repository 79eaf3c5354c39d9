import test, { type ExecutionContext } from 'ava'
import { removeThrowAway, startTestPostgres, templateDatabase, throwAwayFolder } from '../../cli/test/test-postgres.ts'
import { type Db, openDatabase } from '../../db/database.ts'
import { acceptance } from '../../policy/acceptance.ts'
import { inDoubtMessage } from '../../policy/errors.ts'
import { commandTimeouts } from '../../policy/timeouts.ts'
import { Supervisor } from '../../workers/supervisor/supervisor.ts'
import { openApiFor } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { changes, stored } from '../kit/crash/change-kit.ts'
import {
  answeredImmediately,
  apisOfKinds,
  KindRequest,
  storing,
  withoutConcurrentCreations,
} from '../kit/crash/commit-kit.ts'
import { rows } from '../kit/rows/rows.ts'

const undo: (() => Promise<unknown>)[] = []
/** Its commits do not wait for a standby. */
let db: Db
/** As the product’s: its commits wait for the standby. */
let url: string

test.serial.before('a cluster of its own, whose standby can be away', async t => {
  t.timeout(120_000)
  const folder = throwAwayFolder()
  const supervisor = new Supervisor({ runFolder: `${folder}/run`, logFolder: `${folder}/logs`, say: () => {} })
  process.once('exit', () => supervisor.kill())
  undo.push(async () => {
    await supervisor.stop()
    removeThrowAway(folder)
  })
  const { adminUrl } = await startTestPostgres(supervisor, folder, () => {})
  const committing = (how: string) => {
    const own = new URL(adminUrl)
    own.pathname = `/${templateDatabase}`
    own.searchParams.set('options', `-c synchronous_commit=${how}`)
    return own.href
  }
  url = committing('on')
  db = opened({ url: committing('local'), pool: 20 })
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  await db('settings').insert({ name: 'probe', value: '1' })
})
test.after.always('end everything', async () => {
  for (const step of undo.reverse()) await step()
})

const product = { ...acceptance }
test.serial.afterEach.always('the standby is back, with the deadlines of the product', async () => {
  Object.assign(acceptance, product)
  await back()
})

function opened(options: Parameters<typeof openDatabase>[0]): Db {
  const made = openDatabase(options)
  undo.push(() => made.destroy())
  return made
}

/** Who waits for the standby now. */
async function waiting(): Promise<string[]> {
  return (await db('pg_stat_activity').where({ wait_event: 'SyncRep' }).pluck('application_name')).toSorted()
}

async function standbys(names: string): Promise<void> {
  await db.raw(`alter system set synchronous_standby_names = '${names}'`)
  await db.raw('select pg_reload_conf()')
}

/** From here on every commit waits. */
async function away(): Promise<void> {
  await standbys('away')
  const probe = openDatabase({ url, pool: 1, statementTimeoutMs: 500, applicationName: 'probe' })
  const commit = `update settings set value = value where name = 'probe'`
  await comesTrue(async () => {
    void probe.raw(commit).catch(() => {})
    return (await waiting()).includes('probe')
  })
  await probe.destroy()
}

async function back(): Promise<void> {
  await standbys('')
  // One that waits no more is seen a moment later, when it has let go of its number.
  const open = db('pg_stat_activity').where({ wait_event: 'SyncRep' }).orWhereNotNull('backend_xid')
  await comesTrue(async () => (await open.clone().pluck('pid')).length === 0)
}

/** One after the other, as each makes an application on the only host. */
async function prepared(apis: Awaited<ReturnType<typeof apisOfKinds>>): Promise<KindRequest[]> {
  const requests: KindRequest[] = []
  for (const { kind, line, api } of apis) requests.push(await new KindRequest(kind, line, api).begin())
  return requests
}

/** Resolves when something of each waits for the standby. */
async function onTheirWay(requests: KindRequest[]): Promise<void> {
  await comesTrue(async () => {
    const names = await waiting()
    return requests.every(({ kind }) => names.includes(kind))
  })
}

async function refusedAndNothing(t: ExecutionContext, requests: KindRequest[]): Promise<void> {
  await away()
  const answers = await Promise.all(requests.map(request => request.send()))
  for (const [n, { kind }] of requests.entries()) t.is(answers[n]!.status, 503, `${kind}: ${answers[n]!.text}`)
  await onTheirWay(requests)
  await back()
  await Promise.all(requests.map(request => request.undone(t)))
}

test.serial(
  'while a synchronous standby is down requests are answered 503, and have no effect when it is back',
  async t => {
    t.timeout(240_000)
    const requests = await prepared(await apisOfKinds({ db, url }, undo, { statementTimeoutMs: 2500 }))
    for (const group of withoutConcurrentCreations(requests)) await refusedAndNothing(t, group)
  },
)

test.serial(
  'when a standby goes down after a commit was answered, a request answered 200 is done once when it is back',
  async t => {
    t.timeout(240_000)
    // An answer that is held here for long is not missed: the standby is away by the time that it comes.
    const patient = { statementTimeoutMs: 60_000, pool: 10 }
    const apis = await apisOfKinds({ db, url }, undo, patient)
    for (const { api } of apis)
      Object.assign(api.services, {
        timeouts: { ...commandTimeouts, claimMs: 150_000, creationMs: 150_000, holdMs: 150_000 },
      })
    const requests = await prepared(apis)
    Object.assign(acceptance, { push: { ...product.push, answerMs: 60_000, commitMs: 60_000 } })
    const held = requests.map(({ kind, line }) => line.trap({ ...storing(kind), manner: 'held', loss: 'answered' }))
    const sent = requests.map(request => request.send())
    await Promise.all(held)
    await away()
    await Promise.all(requests.map(({ line }) => line.release()))
    const relay = setInterval(() => requests.forEach(request => void request.wake()), 500)
    t.teardown(() => clearInterval(relay))

    const answered = async (kind: string, n: number) => {
      const answer = await sent[n]!
      t.is(answer.status, 200, `${kind}: ${answer.text}`)
    }
    const some = [...requests.entries()].filter(([, { kind }]) => answeredImmediately.includes(kind))
    await Promise.all(some.map(([n, { kind }]) => answered(kind, n)))
    await onTheirWay(requests)
    for (const request of requests) t.is((await request.operations())[0]?.state, 'accepting', request.kind)
    await back()
    await Promise.all(requests.map(({ kind }, n) => answered(kind, n)))
    for (const request of requests) await request.confirmed()
    await Promise.all(requests.map(request => request.done(t)))
  },
)

/** One of each wire, and of each way in which something is written; and where what they write is. */
const plain = [
  'apps.envs.merge',
  'workspaces.create',
  'shares.create',
  'objects.update',
  'objects.upload small',
  'rules.save',
]
const tables = ['app_variables', 'apps', 'blob_rules', 'object_parts', 'objects', 'shares', 'workspaces']

for (const [duration, statementTimeoutMs, status] of [
  ['longer than anybody waits', 2500, 503],
  ['for a moment', 60_000, 200],
] as const)
  test.serial(
    `a synchronous standby that is away ${duration}: a change is answered ${status}, and is there when it is back`,
    async t => {
      t.timeout(120_000)
      const own = opened({ url, pool: 30, statementTimeoutMs, applicationName: 'changes' })
      const api = await openApiFor({ db, url }, { services: () => ({ db: own }) }, undo)
      const asks = []
      for (const name of plain) asks.push(await changes[name]!(api, await api.makeUser()))
      const before = await stored(db)
      await away()
      let answered = 0
      const sent = asks.map(ask => ask().finally(() => answered++))
      await comesTrue(async () => (await waiting()).filter(name => name === 'changes').length >= plain.length)
      if (status === 503)
        for (const [n, name] of plain.entries()) {
          const answer = await sent[n]!
          t.is(answer.status, 503, `${name}: ${answer.text}`)
          t.is(answer.body.message, inDoubtMessage, name)
        }
      t.deepEqual(await stored(db), before, 'nothing is seen of it yet')
      if (status === 200) t.is(answered, 0, 'and no caller gets a success')
      await back()
      if (status === 200)
        for (const [n, name] of plain.entries()) {
          const answer = await sent[n]!
          t.true(answer.status < 300, `${name}: ${answer.text}`)
        }
      const after = await stored(db)
      const changed = Object.keys(after).filter(table => after[table]!.join() !== before[table]!.join())
      t.deepEqual(changed.toSorted(), tables, 'all of it is there, and nothing else')
    },
  )
