import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { StreamAccess, type StreamEnd } from '../../../api/hosts/stream-access.ts'
import { revokeKey } from '../../../db/accounts/accounts.ts'
import { testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const api = testApi()

/** An open stream whose announcements the test makes itself. */
async function opened() {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const line = new EventEmitter()
  const asked: number[] = []
  const { db, services } = api()
  const state = { away: false }
  const access = new StreamAccess(
    {
      db,
      authenticate: async (request, address) => {
        asked.push(Date.now())
        if (state.away) throw Object.assign(new Error('away'), { code: '57P01' })
        return services.authenticate(request, address)
      },
    },
    line as never,
  )
  const headers = { authorization: ana.key }
  const request = { headers, rawHeaders: ['Authorization', ana.key] }
  const exchange = { request, address: '127.0.0.1', path: { appId: app.id } } as never
  const caller = await services.authenticate(request as never, '127.0.0.1')
  const ends: StreamEnd[] = []
  const stop = access.watch({ caller, app, exchange }, 'read', why => ends.push(why))
  return { ana, app, line, asked, ends, stop, state, access }
}

test('a flood of news is followed by few checks, of which the last sees what the last news was about', async t => {
  const { ana, line, asked, ends } = await opened()
  for (let n = 0; n < 100; n++) {
    line.emit('notify', 'access', ana.id)
    if (n === 99) await revokeKey(api().db, ana.keyId)
    else await sleep(20)
  }
  line.emit('notify', 'access', ana.id)
  await comesTrue(async () => ends.length > 0)
  t.deepEqual(ends, ['lost'])
  t.true(asked.length >= 2 && asked.length < 10, `${asked.length}`)
})

test('a database that is away ends no stream; the answer is awaited', async t => {
  const { ana, line, asked, ends, state } = await opened()
  state.away = true
  await revokeKey(api().db, ana.keyId)
  line.emit('ready')
  await comesTrue(async () => asked.length > 0)
  await sleep(100)
  t.deepEqual(ends, [])
  state.away = false
  await comesTrue(async () => ends.length > 0)
  t.deepEqual(ends, ['lost'])
})

test('news of others costs nothing, and a stream that was closed is not looked at', async t => {
  const { ana, app, line, asked, ends, stop, access } = await opened()
  for (const [channel, id] of [
    ['access', 'somebody'],
    ['apps', 'another'],
    ['operations', ana.id],
  ])
    line.emit('notify', channel, id)
  await sleep(900)
  t.is(asked.length, 0)
  line.emit('notify', 'apps', app.id)
  stop()
  await sleep(900)
  access.leave()
  t.is(asked.length, 0)
  t.deepEqual(ends, [])
})
