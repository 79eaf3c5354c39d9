import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { pino } from 'pino'
import { type ContainerHost, type ContainerState, labels } from '../../../activities/containers/port.ts'
import { outputCost } from '../../../policy/apps/output-pace.ts'
import { OutputReaders } from '../../../workers/host/output-readers.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const docker = realDocker()
const log = pino({ level: 'silent' })
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

const prints = `let n = 0
;(function print() { process.stdout.write('x'.repeat(500) + ' ' + ++n + '\\n', () => setImmediate(print)) })()`

test('a program with endless output waits for its reader, and continues without one', async t => {
  t.timeout(120_000)
  const { host, run } = docker
  const spec = docker.spec(`exec node -e "${prints.replaceAll('\n', '')}"`, {
    labels: { [labels.host]: run, [labels.role]: 'app', [labels.owner]: 'ana' },
  })
  await host.create(spec)
  await host.start(spec.name)
  /** The number of the newest line. */
  const printed = async () => Number((await host.logs(spec.name, 600))?.trim().split(' ').pop() ?? 0)
  await comesTrue(async () => (await printed()) > 0)

  const end = new AbortController()
  const pace = { bytesPerSecond: 1, accountBytesPerSecond: 1, burstBytes: 1, lineBytes: 100 }
  const readers = new OutputReaders({ engine: host, log, pace }, end.signal)
  readers.see(await host.list({ [labels.host]: run }))
  let last = -1
  for (let now = await printed(); now !== last; now = await printed()) {
    last = now
    await sleep(1500)
  }
  end.abort()
  await comesTrue(async () => (await printed()) !== last)
  t.true((await printed()) > last)
})

test('applications of one account share its output limit, and a line counts for more than its bytes', t => {
  const app = (owner: string, n: number) =>
    ({
      name: `${owner}${n}`,
      id: `${owner}${n}`,
      running: true,
      labels: { [labels.role]: 'app', [labels.owner]: owner },
    }) as never
  const of = (owner: string, count: number) => Array.from({ length: count }, (_, n) => app(owner, n))
  /** Milliseconds that each of them waits for the fifth MB of its output. */
  const waits = (apps: ContainerState[]) => {
    const waited: Record<string, number> = {}
    let printing = ''
    const readOutput: ContainerHost['readOutput'] = async (name, take) => {
      printing = name
      await take(Buffer.alloc(5 * 1024 * 1024))
    }
    const wait = async (ms: number) => void Object.assign(waited, { [printing]: ms })
    const readers = new OutputReaders({ engine: { readOutput }, log, wait }, new AbortController().signal)
    readers.see(apps)
    return waited
  }
  t.deepEqual(waits(of('ana', 1)), { ana0: 1000 }, '1 MB/s of one')
  t.deepEqual(waits(of('ana', 2)), { ana0: 1000, ana1: 1000 })
  const many = waits([...of('ana', 16), ...of('bob', 1)])
  t.is(many.ana0, 8000, '2 MB/s of all that an account has')
  t.is(many.ana15, 8000)
  t.is(many.bob0, 1000, 'and another has its own')
  t.is(outputCost(Buffer.from('y\ny\n')), 4 + 2 * 100)
})

test('a host of many applications causes no leak warning', async t => {
  const warned: string[] = []
  const note = ({ name }: Error) => warned.push(name)
  process.on('warning', note)
  const end = new AbortController()
  const readOutput: ContainerHost['readOutput'] = (_, __, signal) =>
    new Promise(over => signal.addEventListener('abort', () => over(), { once: true }))
  const apps = Array.from({ length: 20 }, (_, n) => ({ id: `${n}`, running: true, labels: { [labels.role]: 'app' } }))
  new OutputReaders({ engine: { readOutput }, log }, end.signal).see(apps as never)
  await sleep(0) // warnings come with the next turn
  await sleep(0)
  end.abort()
  process.off('warning', note)
  t.false(warned.includes('MaxListenersExceededWarning'))
})

test('the end of a reader is reported, and seeing other applications starts no new one', async t => {
  const app = (id: string, owner = 'ana') =>
    ({
      ...{ id: `c-${id}`, name: id, running: true },
      labels: { [labels.role]: 'app', [labels.app]: id, [labels.owner]: owner },
    }) as never
  const read: string[] = []
  const ended: string[] = []
  const ends = new Map<string, () => void>()
  const readOutput: ContainerHost['readOutput'] = name => {
    read.push(name)
    return new Promise(end => ends.set(name, end))
  }
  const options = { engine: { readOutput }, log, ended: (appId: string) => void ended.push(appId) }
  const readers = new OutputReaders(options, new AbortController().signal)
  readers.see([app('a'), app('b')])
  ends.get('a')!()
  await comesTrue(async () => ended.length > 0)
  t.deepEqual(ended, ['a'])
  readers.see([app('c')], new Set(['c']))
  readers.see([], new Set())
  t.deepEqual(read, ['a', 'b', 'c'])
  readers.see([app('a')], new Set(['a']))
  t.deepEqual(read, ['a', 'b', 'c', 'a'])
})
