import test from 'ava'
import { EventReader } from '../kit/actors/event-stream.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import type { Program } from '../kit/programs.ts'

const started = testPlatform()

/** Counts aloud, from one on, and complains of every tenth. */
const counting = (text: string): Program => ({
  main: 'index.js',
  files: {
    'index.js': `console.log('${text} begins'); let n = 0
setInterval(() => ++n % 10 ? console.log('${text}', n) : console.error('${text}', n), 50)
process.on('SIGTERM', () => { console.log('${text} bye'); process.exit(0) })
require('node:http').createServer((_, answer) => answer.end('${text}')).listen(process.env.PORT)\n`,
  },
})

test.serial(
  'a program is followed live across a restart, a lost host and a new release, until its deletion',
  async t => {
    t.timeout(180_000)
    const platform = await started
    const ana = await platform.api.makeUser()
    const as = platform.api.as(ana)
    const app = await platform.deploy(ana, counting('first'))
    t.is(app.operation.state, 'success')
    const reader = new EventReader(`${platform.api.url}/v2/apps/${app.id}/realtime`, ana.key)
    const lines = () => reader.of('logs')
    // The engine hands on two streams: what was written to one may overtake what was written to the other.
    // A commit and the restart after it are two runs of the same program.
    const firstTen = (text: string) =>
      lines()
        .slice(lines().lastIndexOf(`\u0001${text} begins`) + 1)
        .filter(line => Number(line.split(' ')[1]) <= 10)
        .sort((a, b) => Number(a.split(' ')[1]) - Number(b.split(' ')[1]))
    await reader.until(() => lines().length > 25)
    const numbers = lines()
      .map(line => Number(line.split(' ')[1]))
      .sort((a, b) => a - b)
    t.deepEqual(
      numbers,
      numbers.map((_, n) => numbers[0]! + n),
      'none is missing',
    )
    t.true(lines().every(line => (Number(line.split(' ')[1]) % 10 ? '\u0001' : '\u0002') === line[0]))
    await reader.until(() => reader.of('status').length > 2)
    const [full, next] = reader.of('status').map(text => JSON.parse(text))
    t.like(full, { cpuLimit: 1, status: 'running' })
    t.is(full.ram[1], 512)
    t.true(full.ram[0] > 1 && full.uptime > 0 && next.ram[0] > 1)

    t.is((await as.post(`/v2/apps/${app.id}/restart`)).status, 200)
    await reader.until(() => lines().includes('\u0001first begins'))
    await reader.until(() => firstTen('first').length >= 10)
    t.is(lines().indexOf('\u0001first bye') + 1, lines().indexOf('\u0001first begins'), 'the last words come first')
    t.deepEqual(firstTen('first'), tenOf('first'))

    const host = platform.hosts.get('a')!
    await host.stop()
    await platform.startHost('a')
    const heard = lines().length
    await reader.until(() => lines().length > heard)

    const form = new FormData()
    form.append('file', new Blob([counting('second').files['index.js']!]), 'index.js')
    const commit = await as.post(`/v2/apps/${app.id}/commit`, form)
    t.is(commit.status, 200, commit.text)
    await platform.ended(commit.headers.get('x-operation-id')!)
    t.is((await as.post(`/v2/apps/${app.id}/restart`)).status, 200)
    await reader.until(() => lines().includes('\u0001second begins') && firstTen('second').length >= 10)
    t.deepEqual(firstTen('second'), tenOf('second'))
    t.false(reader.over)

    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
    await reader.ended
    t.is(reader.of('system').at(-1), 'REALTIME_DISCONNECTED')
  },
)

const tenOf = (text: string): string[] =>
  Array.from({ length: 10 }, (_, n) => `${n === 9 ? '\u0002' : '\u0001'}${text} ${n + 1}`)

test.serial('a real API process ends its streams within its drain, and tells clients to reconnect', async t => {
  t.timeout(120_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, counting('here'))
  const { api, url } = await platform.startApiProcess()
  const reader = new EventReader(`${url}/v2/apps/${app.id}/realtime`, ana.key)
  await reader.until(() => reader.of('logs').length > 5)
  api.child.kill('SIGTERM')
  await reader.ended
  t.is(reader.of('system').at(-1), 'REALTIME_RECONNECT')
  t.is(await api.ended, 0)
  t.is((await platform.db('realtime_listeners').where({ app_id: app.id })).length, 0)
})
