import test from 'ava'
import { readLog } from '../../db/deploys/deployments.ts'
import type { Answer } from '../kit/actors/api.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { logSink } from '../kit/log-sink.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { commandLines, filesWith, historyOf, searchFor, tablesWith } from '../kit/platform/secret-search.ts'
import type { Program } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const sink = logSink()
const started = testPlatform({ log: sink.log, settings: { HEALTH_GATE_SECONDS: '4' } })

/** Answers with its environment. Its installation prints the one that it is given. */
const mirror: Program = {
  main: 'index.js',
  files: {
    'index.js':
      'require("node:http").createServer((_, answer) => answer.end(JSON.stringify(process.env))).listen(process.env.PORT)',
    'package.json': '{"scripts":{"preinstall":"env"}}',
  },
}
const broken: Program = { main: 'index.js', files: { 'index.js': 'process.exit(3)' } }

async function deployed() {
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, mirror)
  const as = platform.api.as(ana)
  const path = `/v2/apps/${app.id}`
  const answers: Answer[] = []
  const ask = async (method: string, place: string, init?: RequestInit) => {
    const answer = await as.request(method, path + place, init)
    answers.push(answer)
    return answer
  }
  return {
    ...{ platform, app, answers, ask },
    set: (method: string, envs: unknown) => as.request(method, `${path}/envs`, { body: JSON.stringify({ envs }) }),
    /** What the program itself sees. */
    inside: async () => JSON.parse((await platform.serves(app.domain, '"PORT"')).body) as Record<string, string>,
    info: async () => (await ask('GET', '')).body.response.variables,
    container: async () => (await platform.row(app.id))?.container_id,
    /** The deployment that a commit of this program makes, once it has ended. */
    async commit(program: Program) {
      const form = new FormData()
      form.append('file', new Blob([new Uint8Array(zipOf(program.files))]), 'app.zip')
      const { status } = await ask('POST', '/commit', { body: form })
      if (status !== 200) throw new Error(`the commit answered ${status}`)
      const row = await platform.db('deployments').where({ app_id: app.id }).orderBy('created_at', 'desc').first()
      await platform.ended(row.operation_id)
      return platform.db('deployments').where({ id: row.id }).first()
    },
  }
}

test.serial('a start passes the present variables; an unchanged set keeps the container', async t => {
  t.timeout(120_000)
  const { platform, app, set, ask, inside, info, container } = await deployed()
  t.deepEqual(await info(), { version: 0, current: true })
  const wanted = JSON.parse('{"GREETING":"grüß\\n$HOME","__proto__":"p","PORT":"1","HOME":"/app"}')
  t.is((await set('POST', wanted)).status, 200)
  await set('POST', { OTHER: 'x' })
  t.deepEqual(await info(), { version: 2, current: false })
  t.false('GREETING' in (await inside()), 'what runs keeps what it was started with')

  t.is((await ask('POST', '/restart')).status, 200)
  const seen = await inside()
  t.like(seen, { GREETING: 'grüß\n$HOME', HOME: '/app' })
  t.is(Object.getOwnPropertyDescriptor(seen, '__proto__')?.value, 'p')
  t.not(seen.PORT, '1', 'the port is the platform’s to give')
  t.deepEqual(await info(), { version: 2, current: true })
  const first = await container()
  await set('PUT', { ...wanted, OTHER: 'x' })
  t.is((await ask('POST', '/restart')).status, 200)
  t.is(await container(), first)

  t.is((await ask('POST', '/stop')).status, 200)
  await set('DELETE', ['GREETING'])
  t.deepEqual(await info(), { version: 3, current: true }, 'what is stopped will start with them')
  t.is((await ask('POST', '/start')).status, 200)
  t.false('GREETING' in (await inside()))
  t.not(await container(), first)

  await set('POST', { GREETING: 'after the reboot' })
  await platform.hosts.get('a')?.stop()
  await bareDocker.getContainer(`berth-${app.id}-1`).kill()
  await platform.startHost('a', {}, { bootId: 'another-boot' })
  await platform.until(
    async () => (await inside().catch(() => null))?.GREETING === 'after the reboot',
    20,
    'it is back',
  )
  await platform.until(async () => (await info()).current, 30, 'the start is recorded')
})

test.serial('the largest permitted set starts a program', async t => {
  t.timeout(60_000)
  const { set, ask, inside } = await deployed()
  const names = Array.from({ length: 256 }, (_, n) => `V${n}`.padEnd(1024, '_'))
  t.is((await set('PUT', Object.fromEntries(names.map(name => [name, 'x'.repeat(4096)])))).status, 200)
  t.is((await ask('POST', '/restart')).status, 200)
  const seen = await inside()
  t.true(names.every(name => seen[name]?.length === 4096))
})

const canary = `canary/${Math.random().toString(36).slice(2)}+geheim&é=`
const holds = searchFor([canary])

test.serial('a secret is in the container and nowhere else, whatever fails', async t => {
  t.timeout(150_000)
  const { platform, app, answers, set, ask, inside, commit, info } = await deployed()
  const { db } = platform
  t.true(holds((await set('PUT', { SECRET: canary, OTHER: 'plain' })).text), 'the search finds it where it is')
  const build = await commit(mirror)
  t.is(build.state, 'success')
  t.is((await inside()).SECRET, canary)
  const built = await readLog(db, build.id)
  t.regex(built, /CI=true/, 'the installation printed its environment')
  t.notRegex(built, /SECRET|OTHER/)
  t.like(await commit(broken), { state: 'error', code: 'HEALTH_CHECK_FAILED' })
  t.is((await ask('POST', '/restart')).status, 200)

  // A variable that cannot be decrypted: nothing starts without it, and the reason is shown to users.
  const sealed = await db('app_variables').where({ app_id: app.id, name: 'SECRET' }).first()
  const spoilt = Buffer.from(sealed.value_sealed)
  spoilt[20] = spoilt[20]! ^ 1
  await db('app_variables').where({ app_id: app.id, name: 'SECRET' }).update({ value_sealed: spoilt })
  const failed = await commit(mirror)
  const reason = /^Variables that cannot be decrypted: SECRET\. Set them again or remove them\.$/
  t.is(failed.code, 'READ_FAILED')
  t.regex(failed.message, reason)
  const events = await ask('GET', '/deployments')
  t.regex(events.text, /READ_FAILED/)
  t.is((await inside()).SECRET, canary, 'the version before serves on')
  t.deepEqual((await ask('GET', '/envs')).body.code, 'READ_FAILED')
  const refused = await ask('POST', '/restart')
  t.deepEqual([refused.status, refused.body], [409, { status: 'error', code: 'ACTION_FAILED' }])
  const operation = await db('operations')
    .where({ id: refused.headers.get('x-operation-id') })
    .first()
  t.is(operation.code, 'READ_FAILED')
  t.regex(operation.message, reason)
  t.is((await platform.row(app.id))?.status, 'exited')
  await set('POST', { SECRET: canary })
  t.is((await ask('POST', '/start')).status, 200)
  t.is((await inside()).SECRET, canary)
  t.true((await info()).current)

  t.deepEqual(
    answers.filter(answer => holds(answer.text)).map(answer => answer.text),
    [],
  )
  t.true(sink.text().includes(app.id), 'the log speaks of the application')
  t.false(holds(sink.text()))
  t.deepEqual(await tablesWith(db, holds), [])
  const reported = await historyOf(platform.base.config, app.id)
  t.true(reported.includes(app.id) && reported.includes('READ_FAILED'), 'the history is read')
  t.false(holds(reported))
  t.false(holds(commandLines()))
  t.deepEqual(filesWith(platform.base.folder, holds), [])
})
