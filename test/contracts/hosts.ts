import type { TestFn } from 'ava'
import type { LiveEvent, LiveReading } from '../../activities/live/live-feed.ts'
import type { HostReader } from '../../api/hosts/host-reader.ts'
import type { OpenLive } from '../../api/hosts/live-events.ts'
import type { AppRow } from '../../db/apps/apps.ts'
import { lostWith } from '../../policy/apps/app-problems.ts'
import { comesTrue } from '../kit/comes-true.ts'

/** The host of one application, and events there. */
export interface ScriptedHost {
  app: AppRow
  /** Runs a container that has printed this; an existing container is started again. */
  start(printed?: string): Promise<void>
  print(line: string, stream?: 'stdout' | 'stderr'): Promise<void>
  /** Its program ends. */
  end(exitCode: number): Promise<void>
  remove(): Promise<void>
  /** The host closes every open connection, as a dying process does, and continues. */
  hangUp(): Promise<void>
  /** It cannot be reached, or accepts requests and does not answer. */
  fall(silent: 'away' | 'hanging'): Promise<void>
  /** Number of its live streams with a reader. */
  readers(): number
}

export interface HostsUnderTest {
  hosts: HostReader
  live: OpenLive
  /** A new application, without a container, on its own host. */
  host(): Promise<ScriptedHost>
}

const state = { status: 'running', running: true, exitCode: null, oom: false } as const
const figures = [
  'blockRead',
  'blockWrite',
  'cpuPercent',
  'memoryBytes',
  'memoryLimitBytes',
  'networkIn',
  'networkOut',
] as const

/** The contract of what API processes read from hosts. */
export function hostsContract(test: TestFn, name: string, subject: () => HostsUnderTest): void {
  /** Reads a live stream until it ends. */
  const listen = (app: AppRow) => {
    const leave = new AbortController()
    const events: LiveEvent[] = []
    let begin = () => {}
    const opened = new Promise<void>(resolve => {
      begin = resolve
    })
    const read = async () => {
      const pieces = (await subject().live(app, leave.signal))[Symbol.asyncIterator]()
      const first = pieces.next()
      begin()
      for (let piece = await first; !piece.done; piece = await pieces.next()) events.push(...piece.value)
    }
    const ended = read()
    ended.catch(() => {})
    const readings = () => events.flatMap(event => ('reading' in event ? [event.reading] : []))
    const lines = () => events.flatMap(event => ('line' in event ? [event] : []))
    return { events, opened: Promise.race([opened, ended]), readings, lines, ended, leave: () => leave.abort() }
  }

  const isMeasured = (stats: LiveReading['stats']): boolean =>
    stats !== null && figures.every(figure => Number.isFinite(stats[figure]))

  test(`${name}: an application without a container has no stats and no logs, and its live stream reports that and ends`, async t => {
    const { hosts } = subject()
    const { app, readers } = await subject().host()
    t.like(await hosts.stats(app), { state: null, stats: null })
    t.is(await hosts.logs(app, 1000), null)
    const stream = listen(app)
    await stream.ended
    t.deepEqual(stream.events, [{ error: 'CONTAINER_NOT_FOUND' }])
    await comesTrue(() => readers() === 0)
  })

  test(`${name}: a running application has stats, and its newest output`, async t => {
    const { hosts } = subject()
    const { app, start } = await subject().host()
    await start('first\nsecónd\n')
    const reading = await hosts.stats(app)
    t.like(reading, { state })
    t.true(Math.abs(Date.now() - Date.parse(reading?.state?.startedAt ?? '')) < 120_000)
    t.true(isMeasured(reading!.stats))
    t.true(Number.isInteger(reading?.storageBytes))
    t.is(await hosts.logs(app, 1000), 'first\nsecónd\n')
    t.is(await hosts.logs(app, 10), 'secónd\n', 'whole lines')
    t.is(await hosts.logs(app, 4), 'nd\n', 'and whole characters')
  })

  test(`${name}: an application that has ended reports its exit, and keeps its logs`, async t => {
    const { hosts } = subject()
    const { app, start, end } = await subject().host()
    await start('last words\n')
    await end(3)
    t.like(await hosts.stats(app), {
      state: { status: 'exited', running: false, exitCode: 3, oom: false },
      stats: null,
    })
    t.is(await hosts.logs(app, 1000), 'last words\n')
  })

  test(`${name}: a live stream starts with the stats for every reader, then sends every line in order`, async t => {
    const { app, start, print, readers } = await subject().host()
    await start('before\n')
    const first = listen(app)
    await comesTrue(() => first.readings().length > 0)
    const second = listen(app)
    await second.opened
    t.true(readers() > 0)
    await print('one') // immediately: the next stats are not due yet
    await print('', 'stderr')
    await print('três\u0001', 'stderr')
    const reported = [
      { stream: 'stdout', line: 'one' },
      { stream: 'stderr', line: '' },
      { stream: 'stderr', line: 'três\u0001' },
    ]
    for (const stream of [first, second]) {
      await comesTrue(() => stream.lines().length === reported.length)
      t.deepEqual(stream.lines(), reported as never)
      const [reading] = stream.readings()
      t.true(stream.events[0] !== undefined && 'reading' in stream.events[0], 'the figures come first')
      t.like(reading, { state })
      t.is(typeof reading?.state.startedAt, 'string')
      t.true(isMeasured(reading!.stats))
    }
    first.leave()
    second.leave()
    await Promise.all([first.ended, second.ended])
  })

  test(`${name}: a live stream continues across a stop and a start`, async t => {
    const { app, start, end, print } = await subject().host()
    await start()
    const stream = listen(app)
    await comesTrue(() => stream.readings().length > 0)
    await end(1)
    await comesTrue(() => stream.readings().at(-1)?.state.running === false)
    const ended = { state: { status: 'exited', running: false, exitCode: 1 }, stats: null }
    t.like(stream.readings().at(-1), ended)
    const late = listen(app)
    await comesTrue(() => late.readings().length > 0)
    t.like(late.readings()[0], ended, 'who comes meanwhile gets its state')
    late.leave()
    await late.ended
    await start()
    await comesTrue(() => stream.readings().at(-1)?.state.running === true)
    t.true(isMeasured(stream.readings().at(-1)!.stats))
    await print('again')
    await comesTrue(() => stream.lines().length === 1)
    stream.leave()
    await stream.ended
  })

  test(`${name}: a live stream ends with a reason when the container is removed`, async t => {
    const { app, start, remove, readers } = await subject().host()
    await start()
    const stream = listen(app)
    await comesTrue(() => stream.readings().length > 0)
    await remove()
    await stream.ended
    t.deepEqual(stream.events.at(-1), { error: 'CONTAINER_NOT_FOUND' })
    t.is(stream.events.filter(event => 'error' in event).length, 1)
    await comesTrue(() => readers() === 0)
  })

  test(`${name}: a reader that leaves a live stream gets nothing more, and its stream is closed`, async t => {
    const { app, start, readers } = await subject().host()
    await start()
    const stream = listen(app)
    await comesTrue(() => stream.readings().length > 0)
    stream.leave()
    await t.notThrowsAsync(stream.ended)
    await comesTrue(() => readers() === 0)
    // The other way to leave: the loop ends, without the signal.
    for await (const _ of await subject().live(app, new AbortController().signal)) break
    await comesTrue(() => readers() === 0)
    const left = listen(app)
    left.leave()
    await t.notThrowsAsync(left.ended, 'also who left before anything came')
    await comesTrue(() => readers() === 0)
  })

  test(`${name}: a broken connection is an error, and the next one starts with the stats`, async t => {
    const { app, start, hangUp, print } = await subject().host()
    await start()
    const stream = listen(app)
    await comesTrue(() => stream.readings().length > 0)
    await hangUp()
    await t.throwsAsync(stream.ended)
    const again = listen(app)
    await comesTrue(() => again.readings().length > 0)
    await print('still there')
    await comesTrue(() => again.lines().length === 1)
    again.leave()
    await again.ended
  })

  for (const [silence, code] of [
    ['away', 'CLUSTER_UNAVAILABLE'],
    ['hanging', 'CLUSTER_TIMEOUT'],
  ] as const)
    test(`${name}: of a host that is ${silence} there are no figures, and what has to be read there is ${code}`, async t => {
      const { hosts, live } = subject()
      const { app, start, fall } = await subject().host()
      await start('words\n')
      await fall(silence)
      const asked = [hosts.logs(app, 1000), live(app, new AbortController().signal)].map(answer =>
        t.throwsAsync(answer, { code, name: 'CodedError' }),
      )
      t.is(await hosts.stats(app), null)
      await Promise.all(asked)
    })

  test(`${name}: an application that is lost with its host tells every reader what to do`, async t => {
    const { hosts, live } = subject()
    const { app, start } = await subject().host()
    await start('words\n')
    const lost = { ...app, lost_with: 'h-lost' }
    const reported = { code: 'CLUSTER_UNAVAILABLE', message: lostWith('h-lost') }
    t.is(await hosts.stats(lost), null)
    await t.throwsAsync(hosts.logs(lost, 1000), reported)
    await t.throwsAsync(live(lost, new AbortController().signal), reported)
  })
}
