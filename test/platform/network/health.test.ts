import test from 'ava'
import { testPlatform } from '../../kit/platform/platform.ts'
import { configOf, type Program } from '../../kit/programs.ts'

const started = testPlatform()

/** Answers with the moment of its start; /ready fails from a request to /break on. */
const program: Program = {
  main: 'index.js',
  files: {
    'index.js': `
      const startedAt = 'started at ' + Date.now()
      let isReady = true
      require('node:http').createServer((incoming, answer) => {
        if (incoming.url === '/break') isReady = false
        if (incoming.url === '/ready') answer.statusCode = isReady ? 200 : 503
        answer.end(startedAt)
      }).listen(process.env.PORT, '0.0.0.0')`,
  },
}

const unhealthy = { path: '/ready', status: 'unhealthy', reason: '/ready answered 503' }

test.serial(
  'an unhealthy program is shown with its reason, and with AUTORESTART restarted; its configuration ends the checks',
  async t => {
    t.timeout(300_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'standard-4' })
    const as = platform.api.as(ana)
    const values = { HEALTH: '/ready', AUTORESTART: 'true' }
    const restarts = await platform.deploy(ana, program, values)
    const stays = await platform.deploy(ana, program, { HEALTH: '/ready' })
    const healthOf = async ({ id }: { id: string }) => (await as.get(`/v2/apps/${id}/status`)).body.response.health
    const becomes = (app: { id: string }, status: string) =>
      platform.until(
        async () => {
          const health = await healthOf(app)
          return health?.status === status && health
        },
        90,
        `${app.id} is ${status}`,
      )
    for (const app of [restarts, stays]) {
      t.like(app.operation, { state: 'success' })
      t.like(await becomes(app, 'healthy'), { path: '/ready', reason: null, restarted: null })
    }

    const first = (await platform.page(restarts.domain)).body
    for (const { domain } of [restarts, stays]) await platform.page(domain, { path: '/break' })
    for (const app of [restarts, stays]) t.like(await becomes(app, 'unhealthy'), unhealthy)
    // Both run for less than a minute, or were left alone for that long: from now on they have run for hours.
    await platform
      .db('apps')
      .whereIn('id', [restarts.id, stays.id])
      .update({
        started_at: platform.db.raw(`started_at - interval '2 hours'`),
      })
    const back = await becomes(restarts, 'healthy')
    t.is(back.restarted.reason, '/ready answered 503')
    const second = (await platform.page(restarts.domain)).body
    t.regex(second, /^started at /)
    t.not(second, first)
    const operations = platform.db('operations').where({ kind: 'restart' }).select('target_id', 'actor', 'state')
    t.deepEqual(await operations, [{ target_id: restarts.id, actor: 'health-check', state: 'success' }])

    // Another start is another run, whose health is unknown until it has failed as often.
    t.like(await becomes(stays, 'unhealthy'), unhealthy)
    t.like((await as.get(`/v2/apps/${stays.id}/status`)).body.response, { status: 'running', running: true })
    t.is((await platform.page(stays.domain)).status, 200, 'it still gets its requests')

    const { subdomain } = (await platform.row(stays.id))!
    const content = Object.entries(configOf(program, { SUBDOMAIN: subdomain }))
      .map(line => line.join('='))
      .join('\n')
    const answer = await as.request('PUT', `/v2/apps/${stays.id}/files`, {
      body: JSON.stringify({ path: 'berth.app', content }),
    })
    t.is(answer.status, 200, answer.text)
    t.is(await healthOf(stays), null)
  },
)
