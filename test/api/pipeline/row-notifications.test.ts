import { EventEmitter } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import { RowNotifications } from '../../../api/pipeline/row-notifications.ts'
import type { Notifications } from '../../../db/notifications.ts'

test('waiting callers read again on a notification, when the connection is back, and after 3 s without one', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const line = new EventEmitter()
  const news = new RowNotifications(line as unknown as Notifications, 'operations')
  const { signal } = new AbortController()
  const ways: [how: string, happens: () => void, looks: boolean][] = [
    ['another id', () => line.emit('notify', 'operations', 'b'), false],
    ['another channel', () => line.emit('notify', 'access', 'a'), false],
    ['a notification', () => line.emit('notify', 'operations', 'a'), true],
    ['the line is back', () => line.emit('ready'), true],
    ['before 3 s', () => mock.timers.tick(2999), false],
    ['after 3 s', () => mock.timers.tick(3000), true],
  ]
  for (const [how, happens, looks] of ways) {
    let looked = false
    void news.next('a', 60_000, signal).then(() => {
      looked = true
    })
    happens()
    await turn()
    t.is(looked, looks, how)
    line.emit('ready')
  }
})
