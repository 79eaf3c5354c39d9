import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Spare } from '../../../activities/child-process/spare.ts'

class Child {
  isAlive = true
  hold(): this {
    return this
  }
  end(): void {
    this.isAlive = false
  }
}

test('a spare is started although jobs end more often than its pause lasts, and only one at a time', async t => {
  let started = 0
  const spare = new Spare(() => {
    started++
    return new Child()
  })
  t.teardown(() => spare.close())
  for (let n = 0; n < 20; n++) {
    spare.prepare(200)
    await sleep(20)
  }
  t.is(started, 1)
  t.truthy(spare.take())
  t.is(spare.take(), null)
  spare.prepare(0)
  await sleep(20)
  t.is(started, 2)
})
