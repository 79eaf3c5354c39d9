import test from 'ava'
import { pino } from 'pino'
import { newAppId, newId } from '../../../../policy/ids.ts'
import { serveHost } from '../../../../workers/host/server/host-server.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { watchedHost } from './watched-host.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

test('a host reads figures and logs of the generation that serves, with the bytes that its volume uses', async t => {
  const { db, hostId, engine, options, serving, put, add } = await watchedHost((await database).db)
  const one = await serving(60, { generation: 2 })
  put({ id: one.id, generation: 3 })
  const volumes = { ...options.volumes, usedBytes: async (volume: string) => (volume === one.volume ? 12_345 : 0) }
  const { locks } = options
  const served = { db, engine, volumes, hostId, locks, key: 'k', address: '127.0.0.1', port: 0, log }
  const { url, server } = await serveHost(served)
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const read = (path: string, key = 'k') => fetch(`${url}${path}`, { headers: { authorization: `Bearer ${key}` } })
  engine.figures.set(one.name, { memoryBytes: 7 })
  engine.print(one.name, 'ready\nto serve\n')
  engine.print(`berth-db-${one.id}-3`, 'not me\n')

  const stats = await read(`/databases/${one.id}/stats`)
  t.is(stats.status, 200)
  const { startedAt } = (await engine.inspect(one.name))!
  const state = { status: 'running', running: true, startedAt: startedAt!.toISOString(), exitCode: null, oom: false }
  t.like(await stats.json(), { state, stats: { memoryBytes: 7 }, storageBytes: 12_345 })
  t.is(await (await read(`/databases/${one.id}/logs`)).text(), 'ready\nto serve\n')
  t.is(await (await read(`/databases/${one.id}/logs?maxBytes=9`)).text(), 'to serve\n')

  const made = await add()
  t.deepEqual(await (await read(`/databases/${made.id}/stats`)).json(), { state: null, stats: null, storageBytes: 0 })
  t.is((await read(`/databases/${made.id}/logs`)).status, 404)

  const elsewhere = `h-${newAppId()}`
  await rows(db).host(elsewhere)
  const foreign = await add({ host_id: elsewhere })
  for (const id of [foreign.id, newId(), newAppId()])
    for (const name of ['stats', 'logs']) t.is((await read(`/databases/${id}/${name}`)).status, 404)
  t.is((await read(`/databases/${one.id}/files`)).status, 404)
  t.is((await read(`/databases/${one.id}/stats`, 'x')).status, 401)
})
