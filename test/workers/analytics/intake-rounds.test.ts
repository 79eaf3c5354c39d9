import { appendFileSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { intake, retainedDays } from '../../../policy/network/analytics-terms.ts'
import { pauseAfter } from '../../../workers/analytics/intake-rounds.ts'
import { dayMs, intakeScene, line, noon } from '../../kit/analytics/intake-scene.ts'
import { appA, linesOf, logged } from '../../kit/analytics/log-lines.ts'

const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)

test('lines are taken in once, as the file grows, and a line that is being written waits for its end', async t => {
  const { rounds, path, drain, paths } = await intakeScene(t)
  const taker = rounds()
  t.is(taker.behindBytes, null, 'nothing is known before a round')
  await drain(taker)
  t.deepEqual(await paths(), {})
  const [start, end] = [line('/torn').slice(0, 50), line('/torn').slice(50)]
  writeFileSync(path(noon), line('/1') + start)
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1 })
  t.is(taker.behindBytes, 50)
  appendFileSync(path(noon), end + line('/2'))
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1, '/torn': 1, '/2': 1 })
  t.is(taker.behindBytes, 0)
})

test('another process continues where the last one has committed', async t => {
  const { rounds, path, drain, paths } = await intakeScene(t)
  writeFileSync(path(noon), line('/1'))
  await drain(rounds())
  appendFileSync(path(noon), line('/2'))
  await drain(rounds())
  await drain(rounds())
  t.deepEqual(await paths(), { '/1': 1, '/2': 1 })
})

test('the next hour and the next day are files of their own, also when the older one still grows', async t => {
  const { rounds, path, drain, paths, engine } = await intakeScene(t)
  const taker = rounds()
  const [late, early] = [Date.parse('2026-11-25T23:59:59Z'), Date.parse('2026-11-26T00:00:00Z')]
  writeFileSync(path(late), line('/late', late))
  writeFileSync(path(early), line('/early', early))
  await drain(taker)
  appendFileSync(path(late), line('/later', late))
  await drain(taker)
  t.deepEqual(await paths(), { '/late': 1, '/later': 1, '/early': 1 })
  t.deepEqual(engine.days(), ['2026-11-25', '2026-11-26'])
})

test('a file that was removed, replaced or emptied is read as the file that it is now', async t => {
  const { rounds, path, drain, paths } = await intakeScene(t)
  const taker = rounds()
  writeFileSync(path(noon), line('/1') + line('/2'))
  await drain(taker)
  rmSync(path(noon))
  await drain(taker)
  writeFileSync(path(noon), line('/other', noon + 1).repeat(5))
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1, '/2': 1, '/other': 5 }, 'longer than before, with another beginning')
  writeFileSync(path(noon), line('/short', noon + 2))
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1, '/2': 1, '/other': 5, '/short': 1 })
})

test('a file that has lost its end in a power failure goes on at its end, and nothing in it counts twice', async t => {
  const { rounds, path, drain, paths, warnings } = await intakeScene(t)
  writeFileSync(path(noon), line('/1') + line('/2') + line('/3'))
  await drain(rounds())
  writeFileSync(path(noon), line('/1') + line('/2').slice(0, -20))
  const taker = rounds()
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1, '/2': 1, '/3': 1 })
  t.deepEqual(warnings, ['the log is shorter than what was taken in of it: it goes on at its end'])
  t.is(taker.behindBytes, line('/2').length - 20, 'from the start of its last line')
  appendFileSync(path(noon), `\n${line('/4')}`)
  await drain(rounds())
  t.deepEqual(await paths(), { '/1': 1, '/2': 1, '/3': 1, '/4': 1 })
  t.is(warnings.length, 1)
})

test('a run of bytes without an end of line is skipped, and the lines after it count', async t => {
  const { rounds, path, drain, paths } = await intakeScene(t)
  writeFileSync(path(noon), line('/before'))
  appendFileSync(path(noon), `${'x'.repeat(intake.sliceBytes + 100)}\n${line('/after')}`)
  await drain(rounds())
  t.deepEqual(await paths(), { '/before': 1, '/after': 1 })
})

test('a backlog comes in slices, oldest first, and between slices questions have the engine', async t => {
  const { rounds, path, engine } = await intakeScene(t)
  const one = linesOf(
    Array.from({ length: 100 }, (_, n) => logged({ at: noon, path: `/${n}`, query: 'q'.repeat(900) })),
  )
  const copies = Math.ceil((2.5 * intake.sliceBytes) / one.length)
  for (let n = 0; n < copies; n++) appendFileSync(path(noon), one)
  const taker = rounds()
  t.true(await taker.round())
  t.true(taker.behindBytes! > intake.sliceBytes)
  t.true(await taker.round())
  t.false(await taker.round(), 'the end of the last file')
  t.is(taker.behindBytes, 0)
  const window = { from: noon - dayMs, to: noon + dayMs }
  const { visits } = await engine.ask({ kind: 'analytics', appId: appA, ownerId: '1', window, filters: {} })
  t.is(visits[0]!.requests, copies * 100)
  t.is(pauseAfter(true, 300), 300)
  t.is(pauseAfter(false, 300), intake.everyMs)
})

test('under steady traffic a round waits for its time, and files that have more come one after the other', async t => {
  const { rounds, path, paths } = await intakeScene(t)
  const taker = rounds()
  for (const n of [1, 2, 3]) {
    appendFileSync(path(noon), line(`/${n}`))
    t.false(await taker.round(), 'what came meanwhile is for the next round')
  }
  appendFileSync(path(noon), line('/4') + line('/torn').slice(0, 50))
  t.false(await taker.round(), 'a line that is being written is not there yet')
  appendFileSync(path(noon - dayMs), line('/late', noon - dayMs))
  appendFileSync(path(noon), line('/torn').slice(50))
  t.true(await taker.round())
  t.false(await taker.round())
  t.deepEqual(await paths(), { '/late': 1, '/1': 1, '/2': 1, '/3': 1, '/4': 1, '/torn': 1 })
})

test('a slice whose outcome is unknown is neither lost nor counted twice', async t => {
  const { engine, rounds, path, drain, paths } = await intakeScene(t)
  let failing: 'before' | 'after' | null = 'before'
  const taker = rounds({
    progressOf: day => engine.progressOf(day),
    async take(slice) {
      if (failing === 'before') throw new Error('not stored')
      const count = await engine.take(slice)
      if (failing === 'after') throw new Error('stored, and the answer was lost')
      return count
    },
  })
  writeFileSync(path(noon), line('/1'))
  await t.throwsAsync(taker.round(), { message: 'not stored' })
  failing = 'after'
  await t.throwsAsync(taker.round(), { message: /stored, and/ })
  failing = null
  await drain(taker)
  t.deepEqual(await paths(), { '/1': 1 })
})

test('days are retained for eight days, and older logs are not taken in again', async t => {
  const { rounds, path, drain, paths, setNow, engine, folder } = await intakeScene(t)
  const taker = rounds()
  for (let ago = 0; ago < retainedDays + 2; ago++)
    writeFileSync(path(noon - ago * dayMs), line(`/${ago}`, noon - ago * dayMs))
  await drain(taker)
  t.is(engine.days().length, retainedDays)
  t.is(engine.days()[0], dayOf(noon - (retainedDays - 1) * dayMs))
  setNow(noon + dayMs)
  await drain(taker)
  t.is(engine.days().length, retainedDays - 1)
  t.false(existsSync(join(folder, `${dayOf(noon - (retainedDays - 1) * dayMs)}.duckdb`)))
  t.deepEqual(Object.keys(await paths(noon + dayMs)).length, retainedDays - 1)
})

test('past ANALYTICS_MB the oldest day is dropped, also for the next process; of today alone more requests are only counted', async t => {
  const { rounds, path, drain, engine, warnings, setNow, paths } = await intakeScene(t)
  const yesterday = noon - dayMs
  writeFileSync(path(yesterday), line('/yesterday', yesterday))
  writeFileSync(path(noon), line('/today'))
  await drain(rounds())
  const limit = Math.floor((await engine.size()) * 0.75)
  await drain(rounds(engine, limit))
  t.deepEqual(engine.days(), ['2026-11-26'])
  t.is(warnings.length, 1)
  await drain(rounds(engine, limit))
  t.deepEqual(engine.days(), ['2026-11-26'], 'the log of yesterday is still there')
  appendFileSync(path(noon), line('/more'))
  await drain(rounds(engine, 1))
  t.deepEqual(await paths(), { '/today': 1, Other: 1 })
  t.regex(warnings.at(-1)!, /today alone/)
  const tomorrow = noon + dayMs
  setNow(tomorrow)
  writeFileSync(path(tomorrow), line('/tomorrow', tomorrow))
  await drain(rounds(engine, 1))
  t.deepEqual(engine.days(), [dayOf(tomorrow)], 'the full day gives way as soon as it is over')
  t.deepEqual(await paths(tomorrow), { '/tomorrow': 1 })
})
