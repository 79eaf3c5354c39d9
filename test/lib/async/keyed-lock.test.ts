import test from 'ava'
import { KeyedLock } from '../../../lib/async/keyed-lock.ts'

function held() {
  let leave!: () => void
  const left = new Promise<void>(resolve => {
    leave = resolve
  })
  return { left, leave }
}

test('work with the same key runs one at a time and in order, and other keys are not held up', async t => {
  const lock = new KeyedLock()
  const order: string[] = []
  const first = held()
  const a1 = lock.run('a', async () => {
    await first.left
    order.push('a1')
  })
  const a2 = lock.run('a', async () => order.push('a2'))
  await lock.run('b', async () => order.push('b'))
  t.true(lock.isHeld('a'))
  t.false(lock.isHeld('b'))
  first.leave()
  await Promise.all([a1, a2])
  t.deepEqual(order, ['b', 'a1', 'a2'])
  t.false(lock.isHeld('a'))
})

test('failing work rejects only for its caller', async t => {
  const lock = new KeyedLock()
  const failing = lock.run('a', async () => {
    throw new Error('mine')
  })
  const next = lock.run('a', async () => 'done')
  await t.throwsAsync(failing, { message: 'mine' })
  t.is(await next, 'done')
})
