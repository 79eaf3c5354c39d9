import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../activities/container-host.ts'
import { outputCost, outputPace, outputRate } from '../../policy/output-pace.ts'
import { OutputReaders } from '../../workers/output-readers.ts'
import { realDocker } from '../kit/docker.ts'

const docker = realDocker()
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

const prints = `let n = 0
;(function print() { process.stdout.write('x'.repeat(500) + ' ' + ++n + '\\n', () => setImmediate(print)) })()`

test('a program that prints without end waits for its reader, and goes on without one', async t => {
  t.timeout(120_000)
  const { host, run } = docker
  const spec = docker.spec(`exec node -e "${prints.replaceAll('\n', '')}"`, {
    labels: { [labels.host]: run, [labels.role]: 'app', [labels.owner]: 'ana' },
  })
  await host.create(spec)
  await host.start(spec.name)
  /** The number of the newest line. */
  const printed = async () => Number((await host.logs(spec.name, 600))?.trim().split(' ').pop() ?? 0)
  while ((await printed()) === 0) await sleep(50)

  const end = new AbortController()
  const pace = { bytesPerSecond: 1, accountBytesPerSecond: 1, burstBytes: 1, lineBytes: 100 }
  const readers = new OutputReaders({ engine: host, log: pino({ level: 'silent' }), pace }, end.signal)
  readers.see(await host.list({ [labels.host]: run }))
  let last = -1
  for (let now = await printed(); now !== last; now = await printed()) {
    last = now
    await sleep(1500)
  }
  end.abort()
  while ((await printed()) === last) await sleep(50)
  t.true((await printed()) > last)
})

test('applications of one account share what it may print, and a line counts for more than its bytes', t => {
  t.is(outputRate(1), outputPace.bytesPerSecond)
  t.is(outputRate(64) * 64, outputPace.accountBytesPerSecond)
  t.is(outputCost(Buffer.from('y\ny\n')), 4 + 2 * outputPace.lineBytes)
})
