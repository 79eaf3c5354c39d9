import test, { type ExecutionContext } from 'ava'
import { RememberedAnswers } from '../../../api/network/remembered-answers.ts'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { endpoints } from '../../../api/v2/endpoints.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import type { DatabaseRow } from '../../../db/databases/databases.ts'
import { TtlCache } from '../../../lib/async/ttl-cache.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { type Counter, countersOf, ownCounters } from '../../../policy/counters.ts'
import { codeOn } from '../../../policy/errors.ts'
import { type Limit, limits } from '../../../policy/limits.ts'
import { type Answer, openApiFor, type TestApi, type TestUser, testApi } from '../../kit/actors/api.ts'

/** The test sends from as many addresses as it likes, and no budget comes in the way of a limit. */
const options = { scale: 1, config: { trustedProxies: ['127.0.0.1', '::1'] } }
const plan = 'enterprise-1024'
const api = testApi(options)
const undo: (() => Promise<unknown>)[] = []
let opened: Promise<TestApi> | undefined

/** One more API process on the same database. */
function second(): Promise<TestApi> {
  const { db } = api()
  opened ??= openApiFor({ db, url: db.client.config.connection.connectionString }, options, undo)
  return opened
}
test.after.always(async () => {
  for (const step of undo.reverse()) await step()
})

interface Subject {
  user: TestUser
  app: AppRow
  database: DatabaseRow
  address: string
}

let addresses = 0
let names = 0
const newAddress = (): string => `198.51.${addresses >> 8}.${addresses++ & 255}`
const newUser = (): Promise<TestUser> => api().makeUser({ plan })
const newSubject = async (): Promise<Subject> => {
  const user = await newUser()
  return { user, app: await api().makeApp(user), database: await api().makeDatabase(user), address: newAddress() }
}

type Ask = (process: TestApi, subject: Subject) => Promise<Answer>

/** Limits that an endpoint counts itself, and what moves them. */
const within: Record<string, Ask> = {
  'apps.files.write.config': (process, subject) =>
    asking('apps.files.write', '{"path":"berth.app","content":""}')(process, subject),
  'account.username.changes': (process, subject) =>
    asking('account.username', JSON.stringify({ username: `Ana ${++names}` }))(process, subject),
  async 'users.snapshots.misses'(process, subject) {
    process.services.accountSnapshots = new TtlCache(0)
    return asking('users.snapshots')(process, subject)
  },
  'apps.network.purge_cache.owner': (process, subject) => asking('apps.network.purge_cache')(process, subject),
  async 'apps.network.misses'(process, subject) {
    process.services.networkAnswers = new RememberedAnswers()
    return asking('apps.network.analytics')(process, subject)
  },
}

const known = new Map<string, Endpoint>([...endpoints, ...blobEndpoints].map(endpoint => [endpoint.name, endpoint]))

/** A request without a body: whatever becomes of it, it is counted. */
function asking(name: string, body?: string): Ask {
  const { auth, method, path, wire } = known.get(name)!
  return (process, { user, app, database, address }) => {
    const credential = auth === 'public' ? undefined : user.session
    const actor = wire === 'blob' ? process.blobAs(credential) : process.as(credential)
    const headers = { 'x-forwarded-for': address }
    return actor.request(method, path.replace('{appId}', app.id).replace('{databaseId}', database.id), {
      headers,
      body,
    })
  }
}

const named = Object.entries(limits as Record<string, readonly Limit[]>)

// One after the other: all at once they would only wait for each other's connections.
for (const [name, rows] of named)
  for (const row of rows)
    test.serial(`${name}: ${row.allow} in ${row.perSeconds} s by ${row.by}`, async t => {
      t.timeout(60_000)
      const first = await newSubject()
      const ask = within[name] ?? asking(name)
      const counter = counterOf(name, row, first)
      const code = codeOn(known.get(name)?.wire ?? 'management', counter.code)
      /** Whether this limit refuses; the others of the route stand in nobody's way. */
      const asked = async (process: TestApi, subject: Subject, how = ask) => {
        const answer = await how(process, subject)
        await forget(name, rows, subject, counter)
        return { ...answer, refused: answer.status === 429 && answer.body.code === code }
      }
      /** How many of so many requests are refused, which go to two processes in turns. */
      const refused = async (times: number) => {
        let count = 0
        for (let n = 0; n < times; n++) {
          const subject = /^(apps|databases)\.delete$/.test(name) ? await anotherResource(first) : first
          if ((await asked(n % 2 ? await second() : api(), subject)).refused) count++
        }
        return count
      }

      await move(counter, { window_ends_at: inAnHour })
      const before = await now()
      t.is(await refused(row.allow), 0, 'n pass')
      t.is(await refused(2), 2, 'n + 1 does not, in either process')
      for (const sibling of sharing(name, row))
        t.true((await asked(await second(), first, asking(sibling))).refused, `${sibling} has the same measure`)
      t.false((await asked(await second(), await anybodyElse(first, row))).refused, 'another one has its own')
      if (counter.blockSeconds > 0) {
        lasts(t, counter.blockSeconds, before, (await standing(counter)).blocked_until, await now())
        await move(counter, { window_ends_at: aMomentAgo, blocked_until: inAnHour })
        t.is(await refused(1), 1, 'a new window does not end the block')
      }
      const wait = Number((await asked(api(), first)).headers.get('retry-after'))
      t.true(wait > 3000 && wait <= 3600, `${wait}`)

      await move(counter, { window_ends_at: aMomentAgo, blocked_until: aMomentAgo })
      const after = await now()
      t.is(await refused(1), 0, 'after the window')
      lasts(t, counter.perSeconds, after, (await standing(counter)).window_ends_at, await now())
      await move(counter, { window_ends_at: inAnHour })
      t.is(await refused(row.allow), 1, 'as many as before, whatever was refused meanwhile')
    })

test('a limit is named after what counts it', t => {
  t.deepEqual(
    named.map(([name]) => name).filter(name => !known.has(name) && !within[name]),
    [],
  )
})

function counterOf(name: string, row: Limit, subject: Subject): Counter {
  return ownCounters(name, [row], countedOf(subject))[0]!
}

const countedOf = ({ user, app, database, address }: Subject) => ({
  ...{ user: { id: user.id, plan: defaultPlans.get(plan)! }, appId: app.id, databaseId: database.id },
  ...{ address, scale: 1 },
})

/** Every counter that a request moves, but for one, as if it had never been moved. */
async function forget(name: string, rows: readonly Limit[], subject: Subject, but: Counter) {
  const who = countedOf(subject)
  const moved = countersOf(name, rows, { ...who, budgetBlockSeconds: 0 }).map(({ key }) => key)
  const outer = ownCounters('apps.files.write', limits['apps.files.write'], who).map(({ key }) => key)
  await api()
    .db('rate_limits')
    .whereIn('key', [...moved, ...outer])
    .whereNot({ key: but.key })
    .delete()
}

/** Other endpoints that spend the same. */
const sharing = (name: string, { shared }: Limit): string[] =>
  named
    .filter(([other, rows]) => other !== name && shared !== undefined && rows.some(row => row.shared === shared))
    .map(([other]) => other)

function lasts(t: ExecutionContext, seconds: number, from: Date, end: Date, until: Date): void {
  t.true(end.getTime() >= from.getTime() + seconds * 1000, `${end.toISOString()} is too early`)
  t.true(end.getTime() <= until.getTime() + seconds * 1000, `${end.toISOString()} is too late`)
}

/** The same account, with another application and another database. */
async function anotherResource(first: Subject): Promise<Subject> {
  const { user } = first
  return { ...first, app: await api().makeApp(user), database: await api().makeDatabase(user) }
}

async function anybodyElse(first: Subject, { by }: Limit): Promise<Subject> {
  if (by === 'address') return { ...first, address: newAddress() }
  if (by === 'user') return newSubject()
  return anotherResource(first)
}

const inAnHour = `now() + interval '1 hour'`
const aMomentAgo = `now() - interval '1 second'`

/** By the database's clock, as the counters are. */
async function now(): Promise<Date> {
  return (await api().db.raw('select clock_timestamp() as now')).rows[0].now
}

const standing = ({ key }: Counter): Promise<Record<'window_ends_at' | 'blocked_until', Date>> =>
  api().db('rate_limits').where({ key }).first()

/** Puts the ends of a counter's window and block elsewhere, so that no test has to be quick, or to wait. */
async function move({ key }: Counter, ends: { window_ends_at: string; blocked_until?: string }): Promise<void> {
  const raw = Object.entries(ends).map(([name, moment]) => [name, api().db.raw(moment)])
  const row = { key, used: 0, ...Object.fromEntries(raw) }
  await api()
    .db('rate_limits')
    .insert(row)
    .onConflict('key')
    .merge(Object.keys(ends) as 'key'[])
}
