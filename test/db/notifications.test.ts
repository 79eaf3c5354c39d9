import { once } from 'node:events'
import test from 'ava'
import { Notifications } from '../../db/notifications.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { postgresLine } from '../kit/servers/postgres-line.ts'

const database = testDatabase()

test('a silent listening connection is replaced, and listeners are notified to look again', async t => {
  t.timeout(90_000)
  const { db, url } = await database
  const line = await postgresLine(url)
  const notifications = new Notifications(line.url, ['apps'], { pingEveryMs: 100, answerWithinMs: 2000, retryMs: 10 })
  t.teardown(async () => {
    await notifications.close()
    await line.close()
  })
  const heard: string[] = []
  notifications.on('notify', (_, payload) => heard.push(payload))
  const ready = () => once(notifications, 'ready', { signal: AbortSignal.timeout(60_000) })
  const opened = ready()
  await notifications.open()
  await opened
  t.is(line.opened(), 1)

  const again = ready()
  line.silence()
  await db.raw(`select pg_notify('apps', 'lost on the way')`)
  await again
  t.deepEqual(heard, [], 'the notification was lost, so it had to look again')
  t.true(line.opened() > 1)

  const reported = once(notifications, 'notify', { signal: AbortSignal.timeout(60_000) })
  await db.raw(`select pg_notify('apps', 'heard')`)
  t.deepEqual(await reported, ['apps', 'heard'])
})

test('a connection that dies before it listens is replaced too', async t => {
  t.timeout(90_000)
  const { url } = await database
  const line = await postgresLine(url)
  const notifications = new Notifications(line.url, ['apps'], { answerWithinMs: 500, retryMs: 10 })
  t.teardown(async () => {
    await notifications.close()
    await line.close()
  })
  const ready = once(notifications, 'ready', { signal: AbortSignal.timeout(60_000) })
  const trapped = line.trap({ at: /listen "apps"/, loss: 'lost', manner: 'held' })
  void notifications.open()
  await trapped
  await ready
  t.true(line.opened() > 1)
})
