import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { openDuckDb } from '../../../activities/analytics/duckdb.ts'
import { retainedDays } from '../../../policy/network/analytics-terms.ts'
import { testAddresses } from '../../kit/analytics/addresses.ts'
import { dayMs, intakeScene, line, noon } from '../../kit/analytics/intake-scene.ts'
import { appA } from '../../kit/analytics/log-lines.ts'

test('a file of a day that is no database any more is counted again from the log, and set aside for a while', async t => {
  const { rounds, path, drain, engine, folder, setNow } = await intakeScene(t)
  writeFileSync(path(noon), line('/1'))
  await drain(rounds())
  await engine.close()
  const aside = join(folder, '2026-11-26.duckdb.broken')
  writeFileSync(join(folder, '2026-11-25.duckdb'), 'x'.repeat(20_000))
  writeFileSync(join(folder, '2026-11-26.duckdb'), 'x'.repeat(20_000))
  const broken: string[] = []
  const again = await openDuckDb({ folder, addresses: await testAddresses(), onBroken: day => broken.push(day) })
  t.teardown(() => again.close())
  t.deepEqual(broken, ['2026-11-25', '2026-11-26'])
  t.deepEqual(
    readdirSync(folder).filter(name => name.endsWith('.broken')),
    ['2026-11-26.duckdb.broken'],
    'one at most',
  )
  await drain(rounds(again, 1e9, again))
  const window = { from: noon - dayMs, to: noon + dayMs }
  const { visits } = await again.ask({ kind: 'analytics', appId: appA, ownerId: '1', window, filters: {} })
  t.is(visits[0]!.requests, 1)
  t.true((await again.size()) > 20_000, 'it counts')
  t.true(existsSync(aside))
  setNow(noon + retainedDays * dayMs)
  await drain(rounds(again, 1e9, again))
  t.false(existsSync(aside), 'its addresses are as old as those of its day')
  writeFileSync(aside, 'x'.repeat(20_000))
  setNow(noon)
  await drain(rounds(again, (await again.size()) - 1, again))
  t.deepEqual([existsSync(aside), again.days()], [false, ['2026-11-26']], 'it goes before any day does')
})

test('the file of a new day that a full disk has left incomplete is set aside, and the day begins again', async t => {
  const { path, rounds, drain, engine, folder } = await intakeScene(t)
  await engine.close()
  const broken: string[] = []
  const again = await openDuckDb({ folder, addresses: await testAddresses(), onBroken: day => broken.push(day) })
  t.teardown(() => again.close())
  for (const [n, bytes] of [0, 4096].entries()) {
    const at = noon + n * dayMs
    writeFileSync(path(at), line('/1', at))
    const part = Buffer.alloc(bytes, 'x')
    writeFileSync(join(folder, `${new Date(at).toISOString().slice(0, 10)}.duckdb`), part)
    await drain(rounds(again, 1e9, again))
  }
  t.deepEqual(again.days(), ['2026-11-26', '2026-11-27'])
})

test('a file of a day that cannot be opened for another reason stays, and the process is started again', async t => {
  const { rounds, path, drain, engine, folder } = await intakeScene(t)
  writeFileSync(path(noon), line('/1'))
  await drain(rounds())
  const file = join(folder, '2026-11-26.duckdb')
  await engine.close()
  const content = readFileSync(file)
  const open = async () => openDuckDb({ folder, addresses: await testAddresses(), onBroken: () => t.fail() })
  // As unreadable as a file that is locked, or for which there is no file handle or memory.
  renameSync(file, `${file}.kept`)
  mkdirSync(file)
  await t.throwsAsync(open(), { message: /Could not|directory/ })
  t.true(existsSync(file))
  rmSync(file, { recursive: true })
  renameSync(`${file}.kept`, file)
  const again = await open()
  t.teardown(() => again.close())
  t.deepEqual(readFileSync(file), content)
  t.is((await again.progressOf('2026-11-26')).size, 1)
})
