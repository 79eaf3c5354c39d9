import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { beginChunkedUpload } from '../../../../api/v1/chunked/chunked-init.ts'
import { openApiFor, type TestApi, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'
import { ScriptedLive } from '../../../kit/fakes/scripted-live.ts'

const api = testApi()
const undo: (() => Promise<unknown>)[] = []
test.after.always('end the second process', async () => {
  for (const step of undo.reverse()) await step()
})

test('a rotated key is dead in every process within a second: its requests, tokens and streams; others keep working', async t => {
  const { db } = api()
  const second = await openApiFor({ db, url: db.client.config.connection.connectionString }, {}, undo)
  const processes: readonly TestApi[] = [api(), second]
  const ana = await api().makeUser()
  const scoped = await api().makeKey(ana, { scopes: ['apps:read', 'account:read'] })
  const app = await api().makeApp(ana)
  for (const { hosts } of processes) hosts.streams.set(app.id, new ScriptedLive())
  const tokenBody = JSON.stringify({ max_uses: 100 })
  const { token } = (await api().blobAs(ana.key).post('/v1/upload-tokens', tokenBody)).body.response

  const opened = (credential: string) =>
    processes.map(({ url }) => new EventReader(`${url}/v2/apps/${app.id}/realtime`, credential))
  const [dying, living] = [opened(ana.key), [...opened(scoped.key), ...opened(ana.session)]]
  for (const stream of [...dying, ...living]) await stream.until(({ frames }) => frames.length >= 3)
  const read = (credential: string) =>
    Promise.all(processes.map(async process => (await process.as(credential).get('/v2/users/me')).status))
  const upload = () =>
    Promise.all(
      processes.map(
        async process =>
          (await process.blobAs(token).request(beginChunkedUpload.method, beginChunkedUpload.path)).status,
      ),
    )
  t.deepEqual(await upload(), [200, 200])

  // A client that is busy with the key is believed in both processes at the moment of the change.
  const busy = new AbortController()
  const traffic = (async () => {
    while (!busy.signal.aborted) await Promise.all([read(ana.key), sleep(10)])
  })()
  t.deepEqual(await read(ana.key), [200, 200])
  const rotated = await api().as(ana.session).get('/v2/account/apikey')
  const fresh = rotated.body.response.apiKey
  t.deepEqual(await read(fresh), [200, 200], 'the new one works at once')
  await sleep(1000)
  t.deepEqual(
    [await read(ana.key), await upload()],
    [
      [401, 401],
      [401, 401],
    ],
  )
  busy.abort()
  await traffic
  for (const stream of dying) {
    await stream.ended
    t.deepEqual(stream.of('system').slice(2), ['REALTIME_DISCONNECTED'])
  }

  t.deepEqual([await read(fresh), await read(scoped.key), await read(ana.session)], Array(3).fill([200, 200]))
  for (const stream of living) {
    t.false(stream.over)
    stream.leave()
  }
  const again = (await api().as(ana.session).get('/v2/account/apikey')).body.response.apiKey
  const live = await db('api_keys').where({ user_id: ana.id, revoked_at: null, scopes: null })
  t.deepEqual([live.length, (await read(again))[0]], [1, 200])
})
