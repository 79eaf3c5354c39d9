import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { defaultPlans as plans } from '../../policy/accounts/plans.ts'
import { openTemporal } from '../../workers/connect.ts'
import { planEndsOnce } from '../../workers/loops/plan-ends.ts'
import { temporalLanes } from '../../workers/temporal/lanes.ts'
import type { TestUser } from '../kit/actors/api.ts'
import { comingAgain, tally } from '../kit/actors/coming-again.ts'
import { log, testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram } from '../kit/programs.ts'
import { readMail } from '../kit/servers/mail-server.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform({ worker: false })

const downgrade = async (user: TestUser, body?: object) =>
  (await started).api.as(user.session).post('/v2/account/downgrade', body && JSON.stringify(body))

const planOf = async (user: TestUser) => (await (await started).db('users').where({ id: user.id }).first()).plan

/** The code that the first mail to an account says, or the second; an installation without a mail server puts mail into a folder. */
async function mailedCode(user: TestUser, which: 0 | 1): Promise<string> {
  const platform = await started
  const { email } = await platform.db('users').where({ id: user.id }).first()
  const folder = join(platform.base.folder, 'mail')
  return platform.until(
    async () => {
      const names = (await readdir(folder).catch(() => [])).filter(name => name.endsWith('.eml')).sort()
      const mails = await Promise.all(names.map(async name => readMail(await readFile(join(folder, name), 'utf8'))))
      const text = mails.filter(mail => mail.headers.To === email)[which]?.text
      return /^ {4}(\w{8})$/m.exec(text ?? '')?.[1]
    },
    20,
    'the mail',
  )
}

test.serial(
  'a step is mailed, confirmed by two hundred concurrent requests, applied once, also by a worker that was down',
  async t => {
    t.timeout(120_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'pro-16' })
    const worker = await platform.startWorker()
    t.is((await downgrade(ana)).body.code, 'CONFIRM_CODE_SENT')
    const confirmCode = await mailedCode(ana, 0)
    const confirm = () => comingAgain(() => downgrade(ana, { confirmCode }))
    const answers = await Promise.all(Array.from({ length: 200 }, confirm))
    t.deepEqual(tally(answers.map(({ body }) => body.code)), { CONFIRM_CODE_VALIDATED: 1, CONFIRM_CODE_INVALID: 199 })
    t.is(await planOf(ana), 'pro-12')

    t.is((await downgrade(ana)).body.code, 'CONFIRM_CODE_SENT')
    const code = await mailedCode(ana, 1)
    t.not(code, confirmCode)
    await worker.stop()
    const confirmed = downgrade(ana, { confirmCode: code })
    const state = async () =>
      (await platform.db('downgrades').where({ user_id: ana.id, state: 'confirmed' })).length === 1
    await platform.until(state, 20, 'it is confirmed')
    t.is(await planOf(ana), 'pro-12')
    await platform.startWorker()
    t.is((await confirmed).body.code, 'CONFIRM_CODE_VALIDATED')
    await platform.until(async () => (await planOf(ana)) === 'standard-8', 30, 'it is applied')
  },
)

test.serial('a plan that ends stops its applications; with a new plan their owner starts them', async t => {
  t.timeout(150_000)
  const platform = await started
  const { db } = platform
  const ana = await platform.api.makeUser({ plan: 'hobby-2' })
  const app = await platform.deploy(ana, nodeProgram('it runs'))
  await platform.serves(app.domain, 'it runs')
  const as = platform.api.as(ana)
  const commit = () => {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram('newer').files))]), 'app.zip')
    return as.post(`/v2/apps/${app.id}/commit?restart=true`, form)
  }
  const client = openTemporal(platform.base.config)
  t.teardown(() => client.connection.close())
  const lanes = temporalLanes(client, { queuePrefix: platform.base.config.queuePrefix, idleSeconds: 5 })
  const round = () => planEndsOnce({ db, lanes, databaseLanes: lanes, plans, log, retrySeconds: 0 })
  const endsIn = (seconds: number) =>
    db('users')
      .where({ id: ana.id })
      .update({ plan_ends_at: new Date(Date.now() + seconds * 1000) })
  const stopped = async () => {
    await round()
    const row = await platform.row(app.id)
    return row?.status === 'exited' && row.desired_state === 'stopped'
  }

  await endsIn(2)
  await round()
  t.is((await platform.row(app.id))?.status, 'running')
  await platform.until(stopped, 40, 'it is stopped')
  t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`], 'nothing is deleted')
  for (const verb of ['start', 'restart']) {
    const refused = await as.post(`/v2/apps/${app.id}/${verb}`)
    t.deepEqual([refused.status, refused.body], [409, { status: 'error', code: 'CONTAINER_TEMPORARILY_SUSPENDED' }])
  }
  const pushed = await commit()
  t.is(pushed.status, 200, pushed.text)
  t.like(await platform.ended(pushed.headers.get('x-operation-id') as string), {
    state: 'error',
    code: 'CONTAINER_TEMPORARILY_SUSPENDED',
  })
  t.is((await platform.row(app.id))?.status, 'exited')

  await endsIn(3600)
  await round()
  t.is((await platform.row(app.id))?.desired_state, 'stopped', 'who has a plan again decides what runs')
  t.is((await as.post(`/v2/apps/${app.id}/start`)).status, 200)
  await platform.serves(app.domain, 'it runs')
})

test.serial('a stop that still waits when there is a new plan never runs', async t => {
  t.timeout(60_000)
  const platform = await started
  const { db } = platform
  const ana = await platform.api.makeUser({ plan: 'hobby-2' })
  const app = await platform.deploy(ana, nodeProgram('it stays'))
  await db('users')
    .where({ id: ana.id })
    .update({ plan_ends_at: new Date(0) })
  const asleep = { wake: async () => {} }
  const stop = await db.transaction(async trx => {
    await trx.raw('lock table operations in share row exclusive mode') // no lane claims meanwhile
    await planEndsOnce({ db: trx, lanes: asleep, databaseLanes: asleep, plans, log, retrySeconds: 0 })
    await trx('users').where({ id: ana.id }).update({ plan_ends_at: null })
    return trx('operations').where({ target_id: app.id, kind: 'stop' }).first()
  })
  t.like(await platform.ended(stop.id), { state: 'cancelled', actor: 'plan-expiry' })
  await platform.serves(app.domain, 'it stays')
})
