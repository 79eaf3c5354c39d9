import { request } from 'node:http'
import test from 'ava'
import { testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { zipOf } from '../../kit/zips.ts'

const api = testApi()
const boundary = 'the-boundary'
const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello`
const end = `\r\n--${boundary}--\r\n`

test('an account sends 16 files for its applications concurrently; one that ends or breaks off makes room', async t => {
  t.timeout(120_000)
  const [ana, bob] = [await api().makeUser(), await api().makeUser()]
  const [mine, other] = [await api().makeApp(ana), await api().makeApp(bob)]
  api().lanes.asleep = true
  t.teardown(() => {
    api().lanes.asleep = false
  })
  const slowly = (path: string) => {
    const headers = { authorization: ana.key, 'content-type': `multipart/form-data; boundary=${boundary}` }
    const sending = request(`${api().url}${path}`, { method: 'POST', headers })
    const status = new Promise<number>(resolve => {
      sending.once('response', answer => resolve(answer.resume().statusCode ?? 0)).once('error', () => resolve(0))
    })
    sending.write(head)
    return { sending, status }
  }
  const underWay = async () => {
    const { rows } = await api().db.raw('select count(*)::integer as n from blob_leases where subject = ?', [
      `app-upload/${ana.id}`,
    ])
    return rows[0].n
  }
  const commit = (user = ana, app = mine) => {
    const body = new FormData()
    body.append('file', new Blob([zipOf({ 'index.js': '1' })]), 'files.zip')
    return api().as(user).post(`/v2/apps/${app.id}/commit`, body)
  }
  const first = slowly(`/v2/apps/${mine.id}/commit`)
  const rest = Array.from({ length: 15 }, () => slowly(`/v2/apps/${mine.id}/commit`))
  await comesTrue(async () => (await underWay()) === 16)
  const refused = await commit()
  t.like(refused, { status: 429, body: { code: 'KEEP_CALM' } })
  t.truthy(refused.headers.get('retry-after'))
  const creation = new FormData()
  creation.append('file', new Blob([zipOf({ 'index.js': '1' })]), 'app.zip')
  t.is((await api().as(ana).post('/v2/apps', creation)).status, 429)
  t.is((await commit(bob, other)).status, 200, 'others are not counted')
  first.sending.end(end)
  t.is(await first.status, 200)
  t.is((await commit()).status, 200)
  for (const { sending } of rest) sending.destroy()
  await comesTrue(async () => (await underWay()) === 0)
})
