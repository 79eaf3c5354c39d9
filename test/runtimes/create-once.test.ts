import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import test from 'ava'
import { startTicks } from '../../lib/process-stat.ts'
import { createOnce } from '../../runtimes/create-once.ts'
import { ownFolder } from '../kit/folders.ts'

test('concurrent callers get what one of them makes', async t => {
  const folder = `${ownFolder(t)}/cache`
  let made = 0
  const make = async (work: string) => {
    made++
    t.true((await stat(work)).isDirectory())
    await writeFile(`${folder}/one.tar`, 'complete')
  }
  await Promise.all([1, 2, 3].map(() => createOnce(folder, 'one.tar', make)))
  await createOnce(folder, 'one.tar', make)
  t.is(made, 1)
  t.deepEqual(await readdir(folder), ['one.tar'])
})

test('a file that another process makes is waited for, and made after all when that fails', async t => {
  const folder = ownFolder(t)
  const other = spawn('sleep', ['60'])
  t.teardown(() => other.kill())
  await mkdir(`${folder}/.making-one.tar-${other.pid}-${startTicks(other.pid!)}`)
  const calls: string[] = []
  const waiting = createOnce(folder, 'one.tar', async () => {
    calls.push('one.tar')
    await writeFile(`${folder}/one.tar`, '')
  })
  await createOnce(folder, 'two.tar', async () => {
    calls.push('two.tar')
    await writeFile(`${folder}/two.tar`, '')
  })
  t.deepEqual(calls, ['two.tar'])
  other.kill()
  await waiting
  t.deepEqual(calls, ['two.tar', 'one.tar'])
})

test('a failure reaches the caller, leaves nothing, and the next call begins anew', async t => {
  const folder = ownFolder(t)
  const failed = createOnce(folder, 'one.tar', async work => {
    await writeFile(`${work}/half`, 'half')
    throw new Error('no package sources')
  })
  await t.throwsAsync(failed, { message: 'no package sources' })
  t.deepEqual(await readdir(folder), [])
  await createOnce(folder, 'one.tar', async work => {
    t.deepEqual(await readdir(work), [])
    await writeFile(`${folder}/one.tar`, 'complete')
  })
  t.is(await readFile(`${folder}/one.tar`, 'utf8'), 'complete')
})
