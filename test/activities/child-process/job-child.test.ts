import test from 'ava'
import { JobChild } from '../../../activities/child-process/job-child.ts'

test('a message of a child that is not an object is ignored, and does not throw in its parent', async t => {
  const words: unknown[] = []
  const child = new JobChild('placement', { what: 'Nothing', onMessage: message => words.push(message) })
  t.teardown(() => child.end())
  for (const said of [null, undefined, 'done', 1, true, { kind: 'ready' }])
    t.notThrows(() => child.process.emit('message', said as never, undefined))
  t.deepEqual(words, [{ kind: 'ready' }])
  child.end(new Error('enough'))
  await t.throwsAsync(child.done, { message: 'enough' })
})
