import test from 'ava'
import { testPlatform } from '../kit/platform.ts'
import { configOf, nodeProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform()

const startApi = async (point?: string) => (await started).startApiProcess(point ? { CRASH_POINT: point } : {})

function upload(url: string, key: string, headers: Record<string, string> = {}) {
  const program = nodeProgram('survived')
  const lines = Object.entries(configOf(program, { SUBDOMAIN: 'crash-api' })).map(([name, value]) => `${name}=${value}`)
  const form = new FormData()
  const zip = zipOf({ 'berth.app': lines.join('\n'), ...program.files })
  form.append('file', new Blob([new Uint8Array(zip)]), 'app.zip')
  return fetch(`${url}/v2/apps`, { method: 'POST', headers: { authorization: key, ...headers }, body: form })
}

for (const point of ['store.put:before', 'store.put:after', 'archives.inspect:after'])
  test.serial(`an upload that is cut by the end of the API leaves nothing: ${point}`, async t => {
    t.timeout(60_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const { api, url } = await startApi(point)
    await t.throwsAsync(upload(url, ana.key))
    t.is(await api.ended, 'SIGKILL')
    t.is((await platform.db('apps')).length, 0)
    t.is((await platform.db('operations').where({ owner_id: ana.id })).length, 0)
    t.deepEqual(await platform.storedBodies(), [])
    t.is((await platform.api.as(ana).get('/v2/users/me')).body.response.applications.length, 0)
  })

test.serial(
  'the API dies between writing an upload down and its answer: it runs, and the same key gives the answer',
  async t => {
    t.timeout(90_000)
    const platform = await started
    const ana = await platform.api.makeUser({ plan: 'hobby-1' })
    const headers = { 'idempotency-key': 'the first and the second try' }
    const first = await startApi('lanes.wake:before')
    await t.throwsAsync(upload(first.url, ana.key, headers))
    t.is(await first.api.ended, 'SIGKILL')
    const [app] = await platform.db('apps')
    t.truthy(app, 'it was written down')
    // Nobody woke its lane: the relay does.
    await platform.serves(`${app.subdomain}.${platform.base.config.appsDomain}`, 'survived', 30)
    const second = await startApi()
    try {
      const again = await upload(second.url, ana.key, headers)
      t.is(again.status, 200)
      t.is(((await again.json()) as { response: { id: string } }).response.id, app.id)
      t.is(again.headers.get('idempotent-replayed'), 'true')
      t.is((await platform.db('apps')).length, 1)
      t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])
      t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
    } finally {
      await second.api.kill('SIGKILL')
    }
  },
)
