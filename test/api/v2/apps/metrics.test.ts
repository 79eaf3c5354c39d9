import test from 'ava'
import { saveMetrics } from '../../../../db/apps/app-metrics.ts'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })
const newest = Math.floor(Date.now() / 300_000) * 300_000

const point = (appId: string, ago: number) => ({
  ...{
    appId,
    at: new Date(newest - ago * 300_000),
    cpu: 12.3456 + ago,
    ram: 300.06,
    netIn: 5_000_000_000,
    netOut: ago,
  },
})

test('points come newest first, rounded, at most those of 24 hours', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512 })
  await saveMetrics(
    api().db,
    Array.from({ length: 300 }, (_, ago) => point(app.id, ago)),
  )
  const { status, body } = await api().as(ana).get(`/v2/apps/${app.id}/metrics`)
  t.is(status, 200)
  t.true(body.response.length >= 287 && body.response.length <= 288, String(body.response.length))
  t.deepEqual(body.response.slice(0, 2), [
    { date: new Date(newest).toISOString(), cpu: 12.35, ram: 300.1, net: [5_000_000_000, 0] },
    { date: new Date(newest - 300_000).toISOString(), cpu: 13.35, ram: 300.1, net: [5_000_000_000, 1] },
  ])
})

test('without points the list is empty, and an answer is cached for a while', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512 })
  const read = async () => (await api().as(ana).get(`/v2/apps/${app.id}/metrics`)).body.response
  t.deepEqual(await read(), [])
  await saveMetrics(api().db, [point(app.id, 0)])
  t.deepEqual(await read(), [])
})

test('an application under 512 MB has no metrics', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 511 })
  const { status, body } = await api().as(ana).get(`/v2/apps/${app.id}/metrics`)
  t.deepEqual([status, body.code], [400, 'METRICS_NOT_SUPPORTED'])
})

test('the eleventh request within 5 s is refused for a minute', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { memoryMb: 512 })
  const answers = await Promise.all(Array.from({ length: 11 }, () => api().as(ana).get(`/v2/apps/${app.id}/metrics`)))
  t.deepEqual(
    answers.filter(({ status }) => status !== 200).map(({ status, body }) => [status, body.code]),
    [[429, 'KEEP_CALM']],
  )
})
