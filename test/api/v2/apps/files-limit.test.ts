import { request as httpRequest } from 'node:http'
import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi({ scale: 1 })

async function writer() {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const path = `/v2/apps/${app.id}/files`
  return { ana, path, put: (body: string) => api().as(ana).request('PUT', path, { body }) }
}

const spent = { status: 429, body: { code: 'KEEP_CALM' } }

test('rights and limits are checked before a body of 60 MB is read; an invalid body counts', async t => {
  const { ana, path, put } = await writer()
  for (let index = 0; index < 10; index++) t.is((await put('{"path":')).body.code, 'INVALID_JSON_BODY')
  const refused = await put('{"path":"a","content":""}')
  t.like(refused, spent)
  t.truthy(refused.headers.get('retry-after'))
  for (const [credential, status] of [
    [ana.key, 429],
    ['x'.repeat(80), 401],
    [(await api().makeKey(ana, { scopes: ['files:read'] })).key, 403],
  ] as const)
    t.is(await statusOfUnsent(path, credential), status)
})

test('the configuration file has its own limit, against which an invalid one counts', async t => {
  const { put } = await writer()
  const config = JSON.stringify({ path: 'berth.app', content: 'MAIN=a.js' })
  t.like(await put(config), { status: 400, body: { code: 'MISSING_DISPLAY_NAME' } })
  t.like(await put(config), spent)
  const other = await put(JSON.stringify({ path: 'other', content: 'x' }))
  t.is(other.body.code, 'CLUSTER_UNAVAILABLE', 'other files are not concerned')
})

/** The answer to a request that declares 60 MB and sends none of it. */
function statusOfUnsent(path: string, credential: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: credential, 'content-length': 60 * 1024 * 1024 }
    const asked = httpRequest(`${api().url}${path}`, { method: 'PUT', headers })
    asked.on('error', reject)
    asked.on('response', response => {
      resolve(response.statusCode!)
      asked.destroy()
    })
    asked.flushHeaders()
  })
}
