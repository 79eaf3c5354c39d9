import test from 'ava'
import { sharedFolderSync } from '../../../activities/objects/filesystem.ts'

test('callers during a sync of a folder share the next sync; folders do not wait for each other', async t => {
  const started: string[] = []
  const ends: ((error?: Error) => void)[] = []
  const sync = sharedFolderSync(path => {
    started.push(path)
    return new Promise((resolve, reject) => ends.push(error => (error ? reject(error) : resolve())))
  })
  const first = [sync('a'), sync('a'), sync('b')]
  await Promise.resolve()
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b'])
  const second = [sync('a'), sync('a')]
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b'])
  ends[0]!(new Error('disk'))
  await t.throwsAsync(first[0]!, { message: 'disk' })
  await t.throwsAsync(first[1]!, { message: 'disk' })
  await new Promise(setImmediate)
  t.deepEqual(started, ['a', 'b', 'a'])
  ends[1]!()
  ends[2]!()
  await Promise.all([first[2], ...second])
  const third = sync('a')
  await new Promise(setImmediate)
  ends[3]!()
  await third
  t.deepEqual(started, ['a', 'b', 'a', 'a'])
})
