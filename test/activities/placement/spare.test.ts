import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { placement } from '../../../activities/placement/process.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { lay, ownFolder } from '../../kit/folders.ts'

const placing = placement({ spareAfterMs: 0 })
test.after.always('close', () => placing.close())

/** Numbers of the child processes of this one. */
const children = (): number[] =>
  readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1').split(' ').filter(Boolean).map(Number)

/** A volume whose first release is settled; the child of that has ended, and its spare waits. */
async function volumeWithSpare(t: ExecutionContext) {
  const volume = ownFolder(t)
  const root = (number: number) => join(volume, 'releases', String(number))
  const request = (release: number) => ({ volume, release, path: '', whole: true, owner: null })
  const bring = (number: number, contents: Record<string, string>) => lay(join(root(number), 'source'), contents)
  mkdirSync(join(volume, 'files'))
  bring(1, { 'a.txt': 'one' })
  await placing.place(request(1))
  const before = new Set(children())
  await placing.settle(request(1))
  await comesTrue(() => children().some(pid => !before.has(pid)))
  return { volume, request, bring, spare: children().find(pid => !before.has(pid))! }
}

test.serial('a job takes the child that waits for it, and another one waits for the next', async t => {
  const { volume, request, bring, spare } = await volumeWithSpare(t)
  bring(2, { 'a.txt': 'two' })
  await placing.place(request(2))
  t.is(readFileSync(join(volume, 'files/a.txt'), 'utf8'), 'two')
  await comesTrue(() => !children().includes(spare))
  await comesTrue(() => children().length > 0)
})

test.serial('a child that dies while it waits is replaced', async t => {
  const { volume, request, bring, spare } = await volumeWithSpare(t)
  process.kill(spare, 'SIGKILL')
  await comesTrue(() => !children().includes(spare))
  bring(2, { 'a.txt': 'two' })
  await placing.place(request(2))
  t.is(readFileSync(join(volume, 'files/a.txt'), 'utf8'), 'two')
})

test.serial('nothing waits after the end', async t => {
  await volumeWithSpare(t)
  placing.close()
  await comesTrue(() => children().length === 0)
  t.pass()
})
