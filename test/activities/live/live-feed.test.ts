import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { type LiveEvent, LiveFeed } from '../../../activities/live/live-feed.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'

const programs = { first: { prints: 'one\n' }, second: { prints: 'two\n' } }

function feedOf(t: ExecutionContext) {
  const engine = new FakeContainerHost(programs)
  engine.networks.add('n')
  const events: LiveEvent[] = []
  const newest = async () => {
    const [last] = (await engine.list({})).sort((a, b) => b.name.localeCompare(a.name))
    return last ? engine.inspect(last.name) : null
  }
  const feed = new LiveFeed({ engine, current: newest, turnMs: 30 }, event => void events.push(event))
  t.teardown(() => feed.stop())
  return {
    engine,
    feed,
    events,
    lines: () => events.flatMap(event => ('line' in event ? [event.line] : [])),
    readings: () => events.flatMap(event => ('reading' in event ? [event.reading] : [])),
    async start(name: keyof typeof programs) {
      await engine.create({ name, labels: {}, command: [name], network: 'n', memoryMb: 1 } as never)
      await engine.start(name)
    },
  }
}

test('a feed continues across a stop, a start and releases with one log stream, and ends without a container', async t => {
  const { engine, feed, events, lines, readings, start } = feedOf(t)
  await start('first')
  const running = feed.run()
  await comesTrue(async () => readings().length > 2)
  t.like(readings()[0], { state: { status: 'running', running: true }, stats: { cpuPercent: 0.5 } })
  t.deepEqual(lines(), [], 'nothing from before')

  await engine.stop('first', 1)
  await comesTrue(async () => readings().at(-1)?.state.status === 'exited')
  t.is(readings().at(-1)?.stats, null)
  await sleep(5)
  await engine.start('first')
  await comesTrue(async () => lines().length === 1)
  t.deepEqual(lines(), ['one'], 'all of the new run, nothing of the one before')

  await start('second')
  await comesTrue(async () => lines().length === 2)
  t.deepEqual(lines(), ['one', 'two'])
  t.is(engine.follows.open, 1)
  await sleep(5)
  engine.print('first', 'nobody hears this now\n')
  await engine.remove('second')
  await comesTrue(async () => lines().length === 3)
  t.is(lines()[2], 'nobody hears this now', 'back at the version before, where it was left')

  await engine.remove('first')
  await running
  t.deepEqual(events.at(-1), { error: 'CONTAINER_NOT_FOUND' })
  t.is(engine.follows.open, 0)
})

test('a feed has all output of a run that starts meanwhile, and none of earlier runs', async t => {
  const { engine, feed, lines, readings, start } = feedOf(t)
  await start('first')
  await engine.stop('first', 1)
  void feed.run()
  await comesTrue(async () => readings().at(-1)?.state.status === 'exited')
  await sleep(5)
  await engine.start('first')
  await comesTrue(async () => lines().length === 1)
  engine.print('first', 'more\n')
  await comesTrue(async () => lines().length === 2)
  t.deepEqual(lines(), ['one', 'more'])
})

test('a feed is silent while the engine is, and continues afterwards', async t => {
  const { engine, feed, events, lines, readings, start } = feedOf(t)
  await start('first')
  void feed.run()
  await comesTrue(async () => readings().length > 0)
  engine.unreachable = true
  await sleep(100)
  const heard = events.length
  await sleep(200)
  t.is(events.length, heard)
  engine.unreachable = false
  await comesTrue(async () => events.length > heard)
  engine.print('first', 'still there\n')
  await comesTrue(async () => lines().includes('still there'))
  t.deepEqual(lines(), ['still there'])
})

test('a program that floods its output is read at half a megabyte per second', async t => {
  const { engine, feed, events, lines, readings, start } = feedOf(t)
  await start('first')
  void feed.run()
  await comesTrue(async () => readings().length > 0 && engine.follows.open === 1)
  engine.print('first', `${'x'.repeat(1023)}\n`.repeat(1500))
  const startTime = performance.now()
  await comesTrue(async () => lines().length === 1500)
  // Half a megabyte immediately, and half a megabyte after one and after two seconds.
  t.true(performance.now() - startTime > 1500)
  t.true(readings().length > 10, 'figures come meanwhile')
  t.true(events.every(event => !('error' in event)))
})

test('a feed without a container ends immediately', async t => {
  const { feed, events } = feedOf(t)
  await feed.run()
  t.deepEqual(events, [{ error: 'CONTAINER_NOT_FOUND' }])
})
