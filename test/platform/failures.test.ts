import test from 'ava'
import { readLog } from '../../db/deploys/deployments.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram, type Program } from '../kit/programs.ts'

const started = testPlatform({ settings: { HEALTH_GATE_SECONDS: '4' } })
const empty = { containers: [], networks: [], volumes: [], mounts: [] }

const missing: Program = {
  main: 'index.js',
  files: {
    'index.js': '',
    'package.json': '{"dependencies":{"ws":"0.0.0-there-is-no-such-version"}}',
  },
}

// An image that no registry and no recipe provides, for a language whose image is never built here.
const rustProgram: Program = {
  main: 'src/main.rs',
  files: { 'src/main.rs': 'fn main() {}\n', 'Cargo.toml': '[package]\nname = "x"\n' },
}

const provisioning = {
  'a package that does not exist': { program: missing, code: 'BUILD_FAILED', log: /ETARGET|No matching version/ },
  'an image that cannot be had': { program: rustProgram, code: 'DEPLOY_FAILED', log: null },
}

for (const [name, { program, code, log }] of Object.entries(provisioning)) {
  test.serial(`a failed provisioning leaves nothing but its reason: ${name}`, async t => {
    t.timeout(120_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const app = await platform.deploy(ana, program, { MEMORY: '1024' })
    t.like(app.operation, { state: 'error', code })
    t.truthy(app.operation.message)
    const deployment = await platform.db('deployments').where({ app_id: app.id }).first()
    t.like(deployment, { state: 'error', code, segment_id: null })
    if (log) t.regex(await readLog(platform.db, deployment.id), log)
    t.is((await platform.api.as(ana).get(`/v2/apps/${app.id}`)).body.code, 'APP_NOT_FOUND')
    await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
    t.deepEqual(await platform.remains(), empty)
    t.deepEqual(await platform.base.proxy.edge.listRoutes(), [])
    t.deepEqual(await platform.storedBodies(), [])
    const again = await platform.deploy(ana, nodeProgram('the memory came back'), { MEMORY: '1024' })
    t.is(again.operation.state, 'success')
    t.is((await platform.api.as(ana).delete(`/v2/apps/${again.id}`)).status, 200)
    await platform.until(async () => (await platform.remains()).networks.length === 0, 10, 'the network is removed')
  })
}

const script = (text: string): Program => ({ main: 'index.js', files: { 'index.js': text } })
const hungry = 'const kept = []; for (;;) kept.push(Buffer.alloc(16 * 1024 * 1024, 1))'

const programs = {
  'ends at once': {
    text: 'console.log("it ends here"); process.exit(7)',
    exit: { code: 7, oom: false },
    logs: /it ends/,
  },
  'prints a NUL byte': {
    text: 'process.stdout.write("a\\0b"); process.exit(1)',
    exit: { code: 1, oom: false },
    logs: /a.b/,
  },
  'needs more memory than it has': { text: hungry, exit: { code: 137, oom: true }, logs: null },
  'never listens': {
    text: 'console.log("waiting"); setInterval(() => {}, 1000)',
    exit: { oom: false },
    logs: /waiting/,
  },
}

for (const [name, { text, exit, logs }] of Object.entries(programs)) {
  test.serial(`a program that does not stay up is left to its owner: one that ${name}`, async t => {
    t.timeout(60_000)
    const platform = await started
    const ana = await platform.api.makeUser()
    const as = platform.api.as(ana)
    const app = await platform.deploy(ana, script(text))
    t.like(app.operation, { state: 'error', code: 'HEALTH_CHECK_FAILED' })
    t.like(await platform.db('deployments').where({ app_id: app.id }).first(), {
      state: 'error',
      code: 'HEALTH_CHECK_FAILED',
    })
    const status = await as.get(`/v2/apps/${app.id}/status`)
    t.like(status.body.response, { status: 'exited', running: false, exit }, status.text)
    if (logs) t.regex((await as.get(`/v2/apps/${app.id}/logs`)).body.response.logs, logs)
    t.is((await as.get(`/v2/apps/${app.id}`)).status, 200)
    t.is((await platform.page(app.domain)).status, 404)
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  })
}

test.serial('a program killed for its memory long after its start is reported as such', async t => {
  t.timeout(60_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const text = `const http = require('node:http')
http.createServer((q, a) => { a.end('up'); if (q.url === '/eat') setTimeout(() => { ${hungry} }, 50) }).listen(process.env.PORT)`
  const app = await platform.deploy(ana, script(text))
  t.is(app.operation.state, 'success')
  await platform.page(app.domain, { path: '/eat' })
  await platform.until(async () => (await platform.row(app.id))?.status === 'exited', 20, 'its end is recorded')
  const { body } = await platform.api.as(ana).get(`/v2/apps/${app.id}/status`)
  t.like(body.response, { status: 'exited', running: false, exit: { code: 137, oom: true } })
  await platform.until(async () => (await platform.page(app.domain)).status === 404, 30, 'its route is removed')
  t.is((await platform.row(app.id))?.desired_state, 'running')
  t.is((await platform.api.as(ana).post(`/v2/apps/${app.id}/start`)).status, 200)
  t.is((await platform.serves(app.domain, 'up', 30)).status, 200)
})
