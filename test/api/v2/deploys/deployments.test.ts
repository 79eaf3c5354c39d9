import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { revokeKey } from '../../../../db/accounts/accounts.ts'
import { transaction } from '../../../../db/database.ts'
import { appendLog, recordDeploymentStep } from '../../../../db/deploys/deployments.ts'
import { queueDeploy } from '../../../../db/deploys/deploys.ts'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { EventReader } from '../../../kit/actors/event-stream.ts'

const api = testApi()

async function deployed(user: TestUser, count: number): Promise<{ appId: string; ids: string[] }> {
  const app = await api().makeApp(user)
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const queued = await transaction(api().db, trx =>
      queueDeploy(trx, {
        appId: app.id,
        ownerId: user.id,
        actor: user.id,
        trigger: 'webhook',
        revision: String(i).padStart(40, '0'),
        cloneUrl: 'https://git.example.org/a/b.git',
        branch: `b${i}`,
      }),
    )
    ids.push(queued!.deploymentId)
  }
  return { appId: app.id, ids }
}

test('each deploy has an array of events, oldest event first, newest deploy first', async t => {
  const ana = await api().makeUser()
  const { appId, ids } = await deployed(ana, 1)
  const id = ids[0]!
  const files = { added: ['a.js'], removed: [], modified: ['b.js'] }
  await recordDeploymentStep(api().db, id, { state: 'clone', branch: 'b0' })
  await recordDeploymentStep(api().db, id, { state: 'commit', files })
  await recordDeploymentStep(api().db, id, { state: 'error', code: 'BUILD_FAILED', message: 'npm said no' })
  const list = (await api().as(ana).get(`/v2/apps/${appId}/deployments`)).body.response
  t.is(list.length, 2)
  const { operation_id } = await api().db('deployments').where({ id }).first('operation_id')
  const common = { id: '0'.repeat(40), deployment_id: id, operation_id, source: 'git' }
  t.deepEqual(
    list[0].map(({ date, ...event }: { date: string }) => {
      t.regex(date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      return event
    }),
    [
      { ...common, state: 'pending' },
      { ...common, state: 'clone', branch: 'b0' },
      { ...common, state: 'commit', files },
      { ...common, state: 'error', code: 'BUILD_FAILED', message: 'npm said no' },
    ],
  )
  t.is(list[1][0].source, 'upload', 'the creation is a deployment too')
})

test('ten by default, and the rest by cursor', async t => {
  const ana = await api().makeUser()
  const { appId, ids } = await deployed(ana, 13)
  const page = async (query = '') =>
    (await api().as(ana).get(`/v2/apps/${appId}/deployments${query}`)).body.response.map(
      ([event]: { deployment_id: string }[]) => event!.deployment_id,
    )
  const newest = [...ids].reverse()
  t.deepEqual(await page(), newest.slice(0, 10))
  t.deepEqual(await page('?limit=3'), newest.slice(0, 3))
  t.deepEqual((await page(`?limit=100&cursor=${newest[9]}`)).slice(0, 3), newest.slice(10))
  t.is((await page('?limit=100')).length, 14)
  t.deepEqual(await page(`?cursor=${'f'.repeat(32)}`), [])
  for (const query of ['?limit=0', '?limit=101', '?limit=x', '?cursor=x'])
    t.is((await api().as(ana).get(`/v2/apps/${appId}/deployments${query}`)).body.code, 'INVALID_PARAMETERS', query)
})

test('a log is read completely; a foreign or unknown deployment is not found', async t => {
  const ana = await api().makeUser()
  const { appId, ids } = await deployed(ana, 1)
  await appendLog(api().db, ids[0]!, 'one\ntwo\n')
  await appendLog(api().db, ids[0]!, 'three')
  const logs = (id: string, app = appId) => api().as(ana).get(`/v2/apps/${app}/deployments/${id}/logs`)
  t.deepEqual((await logs(ids[0]!)).body.response, { logs: 'one\ntwo\nthree' })
  const other = await deployed(await api().makeUser(), 1)
  for (const id of [other.ids[0]!, 'f'.repeat(32), 'nonsense'])
    t.deepEqual([(await logs(id)).status, (await logs(id)).body.code], [404, 'DEPLOYMENT_NOT_FOUND'])
})

const follow = (path: string, key: string, headers?: Record<string, string>) =>
  new EventReader(`${api().url}${path}`, key, headers)

const until = async (met: () => boolean) => {
  for (let i = 0; i < 200 && !met(); i++) await sleep(25)
}

test('a log is followed until the end, and resumed where a client left', async t => {
  const ana = await api().makeUser()
  const { appId, ids } = await deployed(ana, 1)
  const id = ids[0]!
  const path = `/v2/apps/${appId}/deployments/${id}/logs`
  await appendLog(api().db, id, 'fetching\r\n')
  const stream = follow(path, ana.key)
  await until(() => stream.frames.length > 0)
  t.is(stream.response?.headers['content-type'], 'text/event-stream; charset=utf-8')
  const startedAt = performance.now()
  await appendLog(api().db, id, 'installing\n\ndone')
  await until(() => stream.frames.length > 1)
  t.true(performance.now() - startedAt < 2000)
  await recordDeploymentStep(api().db, id, { state: 'success' })
  t.deepEqual(await stream.ended, [
    { event: 'logs', id: '1', data: 'fetching\n' },
    { event: 'logs', id: '2', data: 'installing\n\ndone' },
    { event: 'end', id: undefined, data: 'success' },
  ])
  const rest = await follow(path, ana.key, { 'last-event-id': '1' }).ended
  t.deepEqual(
    rest.map(frame => frame.event),
    ['logs', 'end'],
  )
  t.is(rest[0]?.data, 'installing\n\ndone')
  for (const odd of ['-1', 'x', '1e99']) t.is((await follow(path, ana.key, { 'last-event-id': odd }).ended).length, 2)
})

test('a revoked key ends its streams within 5 s', async t => {
  const ana = await api().makeUser()
  const { appId, ids } = await deployed(ana, 1)
  const key = await api().makeKey(ana, { scopes: ['apps:read'] })
  await appendLog(api().db, ids[0]!, 'hello')
  const stream = follow(`/v2/apps/${appId}/deployments/${ids[0]}/logs`, key.key)
  await until(() => stream.frames.length > 0)
  await revokeKey(api().db, key.id)
  const startedAt = performance.now()
  t.deepEqual(
    (await stream.ended).map(frame => frame.event),
    ['logs'],
  )
  t.true(performance.now() - startedAt < 5600, `${performance.now() - startedAt}`)
})
