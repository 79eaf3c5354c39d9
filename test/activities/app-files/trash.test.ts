import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { emptyTrash } from '../../../activities/app-files/trash.ts'
import { ownFolder } from '../../kit/folders.ts'

function volumeWithTrash(t: ExecutionContext, files: number) {
  const volume = ownFolder(t)
  const thrown = join(volume, 'trash/thrown')
  mkdirSync(thrown, { recursive: true })
  for (let number = 0; number < files; number++) writeFileSync(join(thrown, `${number}`), '')
  return { volume, thrown }
}

test('the trash of a volume is emptied by one run at a time, concurrently with that of other volumes', async t => {
  const huge = volumeWithTrash(t, 3000)
  const small = volumeWithTrash(t, 1)
  const ended: string[] = []
  const first = emptyTrash(huge.volume).then(() => ended.push('first'))
  await new Promise(setImmediate)
  const later = Array.from({ length: 100 }, () => emptyTrash(huge.volume))
  t.is(new Set(later).size, 1, 'a hundred callers share one turn')
  await emptyTrash(small.volume).then(() => ended.push('small'))
  t.false(existsSync(small.thrown))
  await Promise.all([first, ...later])
  t.deepEqual(ended, ['small', 'first'])
  t.false(existsSync(huge.thrown))
})
