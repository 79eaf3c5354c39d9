import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { writeSettings } from '../../../activities/databases/settings-folder.ts'
import { ownFolder } from '../../kit/folders.ts'

const uid = process.getuid!()

test('settings that are equal stay untouched, others are replaced', async t => {
  const settings = ownFolder(t)
  await writeSettings({ settings }, { one: '1', two: '2', three: '3' }, uid)
  const before = statSync(join(settings, 'one')).ino
  await writeSettings({ settings }, { one: '1', two: 'another' }, uid)
  t.is(statSync(join(settings, 'one')).ino, before)
  const texts = readdirSync(settings).map(name => readFileSync(join(settings, name), 'utf8'))
  t.deepEqual(texts.sort(), ['1', '3', 'another'], 'and no draft is left')
  t.is(statSync(join(settings, 'two')).mode & 0o777, 0o640)
})

test('a file that cannot be written fails the whole once the others are written', async t => {
  const settings = ownFolder(t)
  // Its name is a folder, which no file replaces.
  mkdirSync(join(settings, 'b'))
  const files = { a: '1', b: '2', c: 'x'.repeat(4_000_000) }
  await t.throwsAsync(writeSettings({ settings }, files, uid), { code: 'EISDIR' })
  t.is(readFileSync(join(settings, 'c'), 'utf8').length, 4_000_000)
  t.is(readFileSync(join(settings, 'a'), 'utf8'), '1')
})
