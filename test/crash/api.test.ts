import test, { type ExecutionContext } from 'ava'
import { openDatabase } from '../../db/database.ts'
import { sweep } from '../kit/objects/sweep.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { configOf, nodeProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform()

const startApi = async (point?: string) => (await started).startApiProcess(point ? { CRASH_POINT: point } : {})

function upload(url: string, key: string, headers: Record<string, string> = {}, main = 'index.js') {
  const program = { ...nodeProgram('survived'), main }
  const lines = Object.entries(configOf(program, { SUBDOMAIN: 'crash-api' })).map(([name, value]) => `${name}=${value}`)
  const form = new FormData()
  const zip = zipOf({ 'berth.app': lines.join('\n'), ...program.files })
  form.append('file', new Blob([new Uint8Array(zip)]), 'app.zip')
  return fetch(`${url}/v2/apps`, { method: 'POST', headers: { authorization: key, ...headers }, body: form })
}

async function uploadedTo(url: string, key: string): Promise<{ status: number; body: { response?: { id: string } } }> {
  const answer = await upload(url, key)
  return { status: answer.status, body: (await answer.json()) as { response?: { id: string } } }
}

/** Of an upload nothing is there: no row, which is what memory and a name are reserved by, and no body once the sweep came by. */
async function leftNothing(t: ExecutionContext, { id, key }: { id: string; key: string }): Promise<void> {
  const platform = await started
  for (const table of ['apps', 'deployments', 'deployment_events']) t.is((await platform.db(table)).length, 0, table)
  t.is((await platform.db('operations').where({ owner_id: id })).length, 0)
  t.deepEqual(await platform.storedBodies(), [])
  t.is((await platform.api.as(key).get('/v2/users/me')).body.response.applications.length, 0)
}

for (const point of ['store.put:before', 'store.put:after', 'archives.inspect:after'])
  test.serial(`an upload that is cut by the end of the API leaves nothing: ${point}`, async t => {
    t.timeout(60_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const { api, url } = await startApi(point)
    await t.throwsAsync(upload(url, ana.key))
    t.is(await api.ended, 'SIGKILL')
    await leftNothing(t, ana)
  })

for (const table of ['apps', 'operations', 'deployments'])
  test.serial(
    `an upload whose API ends before it writes to ${table} leaves nothing: all of it is one commit`,
    async t => {
      t.timeout(60_000)
      const { base, db, until, api } = await started
      const ana = await api.makeUser({ plan: 'hobby-1' })
      const dying = await startApi()
      const near = openDatabase({ url: base.url, pool: 1, statementTimeoutMs: 60_000, idleTransactionMs: 0 })
      const lock = await near.transaction()
      await lock.raw('lock table ?? in share row exclusive mode', [table])
      const cut = t.throwsAsync(upload(dying.url, ana.key))
      const writing = db('pg_stat_activity').whereLike('query', `insert into "${table}"%`)
      const waiting = writing.clone().where({ wait_event_type: 'Lock' })
      await until(async () => (await waiting.clone()).length > 0, 30, `it waits for ${table}`)
      const { pid } = (await waiting)[0]
      await dying.api.kill('SIGKILL')
      await cut
      await lock.rollback()
      await near.destroy()
      await until(
        async () => (await db('pg_stat_activity').where({ pid })).length === 0,
        30,
        'what it had started has ended',
      )
      await leftNothing(t, ana)
    },
  )

for (const point of ['store.delete:before', 'store.delete:after'])
  test.serial(
    `the API dies while it gives up the body of a refused upload: the next sweep does it: ${point}`,
    async t => {
      t.timeout(60_000)
      const { base, db, api } = await started
      const ana = await api.makeUser({ plan: 'hobby-1' })
      const dying = await startApi(point)
      await t.throwsAsync(upload(dying.url, ana.key, {}, 'nowhere.js'))
      t.is(await dying.api.ended, 'SIGKILL')
      const [body, ...others] = await db('segments').where({ state: 'dying' }).pluck('id')
      t.deepEqual(others, [])
      t.is((await base.store.head(body)) !== null, point === 'store.delete:before')
      t.is(await sweep({ db, store: base.store }), 1)
      t.is(await base.store.head(body), null)
      await leftNothing(t, ana)
    },
  )

test.serial(
  'the API dies between writing an upload down and its answer: it runs, and the same key gives the answer',
  async t => {
    t.timeout(90_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const headers = { 'idempotency-key': 'the first and the second try' }
    const first = await startApi('lanes.wake:before')
    await t.throwsAsync(upload(first.url, ana.key, headers))
    t.is(await first.api.ended, 'SIGKILL')
    const [app] = await platform.db('apps')
    t.truthy(app, 'it was written down')
    // Its lane was not woken: the relay does that.
    await platform.serves(`${app.subdomain}.${platform.base.config.appsDomain}`, 'survived', 30)
    const second = await startApi()
    try {
      const again = await upload(second.url, ana.key, headers)
      t.is(again.status, 200)
      t.is(((await again.json()) as { response: { id: string } }).response.id, app.id)
      t.is(again.headers.get('idempotent-replayed'), 'true')
      t.is((await platform.db('apps')).length, 1)
      t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])
      t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
    } finally {
      await second.api.kill('SIGKILL')
    }
  },
)

test.serial('an API that is suspended within a placement keeps no host silent, and placements go on', async t => {
  t.timeout(90_000)
  const { base, db, until, api } = await started
  const [ana, ben] = [await api.makeUser({ plan: 'hobby-1' }), await api.makeUser({ plan: 'hobby-1' })]
  const [stopping, other] = await Promise.all([startApi(), startApi()])
  const near = openDatabase({ url: base.url, pool: 1, statementTimeoutMs: 60_000, idleTransactionMs: 0 })
  try {
    const lock = await near.transaction()
    await lock.raw('lock table apps in share row exclusive mode')
    const cut = upload(stopping.url, ana.key).then(answer => answer.status)
    const waiting = db('pg_stat_activity').whereLike('query', 'insert into "apps"%').where({ wait_event_type: 'Lock' })
    await until(async () => (await waiting.clone()).length > 0, 30, 'it has chosen a host')
    const { pid } = (await waiting)[0]
    stopping.api.child.kill('SIGSTOP')
    await lock.rollback()
    const paused = () => db('pg_stat_activity').where({ pid }).first('state')
    await until(async () => (await paused())?.state === 'idle in transaction', 30, 'it has stored the application')
    const { last_seen_at: before } = await db('hosts').first('last_seen_at')
    const seen = async () => (await db('hosts').first('last_seen_at')).last_seen_at > before
    await until(async () => (await seen()) || (await paused()) === undefined, 30, 'its host reports')
    t.true(await seen(), 'the host reports while the transaction is open')
    await until(async () => (await paused()) === undefined, 30, 'the transaction is rolled back')
    const { status, body } = await uploadedTo(other.url, ben.key)
    t.is(status, 200, JSON.stringify(body))
    stopping.api.child.kill('SIGCONT')
    t.is(await cut, 503)
    t.is((await db('apps').where({ owner_id: ana.id })).length, 0)
    t.is((await api.as(ben).delete(`/v2/apps/${body.response?.id}`)).status, 200)
  } finally {
    await near.destroy()
    for (const process of [stopping, other]) await process.api.kill('SIGKILL')
  }
})
