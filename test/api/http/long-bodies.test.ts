import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { revokeKey } from '../../../db/accounts/accounts.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { makeWorkspace } from '../../kit/rows/workspaces.ts'
import { appZip } from '../../kit/zips.ts'

const api = testApi()

interface Sent {
  body: Buffer
  type: string
}

async function zipForm(): Promise<Sent> {
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(appZip())]), 'app.zip')
  const whole = new Response(form)
  return { body: Buffer.from(await whole.arrayBuffer()), type: whole.headers.get('content-type')! }
}

/** A request that was let in, and whose body comes once its end is requested. Resolves to status and code. */
async function slowly({ key }: TestUser, method: string, path: string, { body, type }: Sent) {
  const headers = { authorization: key, 'content-type': type, 'content-length': body.length, expect: '100-continue' }
  const sending = request(`${api().url}${path}`, { method, headers })
  const answered = once(sending, 'response').then(async ([answer]) => {
    const text = Buffer.concat(await answer.toArray()).toString()
    return [answer.statusCode, JSON.parse(text).code]
  })
  sending.flushHeaders()
  await once(sending, 'continue')
  return async () => {
    sending.end(body)
    return answered
  }
}

const deploys = (appId: string) => api().db('operations').where({ target_id: appId, kind: 'deploy' })
const bodies = async () => (await api().db('segments').whereNot({ state: 'drawn' })).length

test.serial('a slow upload creates no application for a key that was revoked meanwhile', async t => {
  const ana = await api().makeUser()
  const stored = await bodies()
  const end = await slowly(ana, 'POST', '/v2/apps', await zipForm())
  await revokeKey(api().db, ana.keyId)
  await sleep(1100) // so long a credential may be believed
  t.deepEqual(await end(), [401, 'ACCESS_DENIED'])
  t.deepEqual(await api().db('apps').where({ owner_id: ana.id }), [])
  t.is(await bodies(), stored)
})

const losses = {
  'is removed': { change: ['DELETE', {}], commit: [404, 'APP_NOT_FOUND'], file: [404, 'APP_NOT_FOUND'] },
  'may only look': {
    change: ['PATCH', { group: 'view' }],
    commit: [403, 'PERMISSION_DENIED'],
    file: [403, 'PERMISSION_DENIED'],
  },
} as const

for (const [how, { change, commit, file }] of Object.entries(losses))
  test.serial(`a member who ${how} while a body comes neither commits nor writes with it`, async t => {
    const [ana, bob] = [await api().makeUser(), await api().makeUser()]
    const app = await api().makeApp(ana)
    const { id } = await makeWorkspace(api().db, ana, { members: [[bob, 'maintain']], apps: [app] })
    const path = `/v2/apps/${app.id}-${id}`
    const stored = await bodies()
    const text: Sent = { body: Buffer.from('{"path":"a","content":"b"}'), type: 'application/json' }
    const ends = [
      await slowly(bob, 'POST', `${path}/commit`, await zipForm()),
      await slowly(bob, 'PUT', `${path}/files`, text),
    ]
    const [method, fields] = change
    const changed = { body: JSON.stringify({ workspaceId: id, memberId: bob.id, ...fields }) }
    t.is((await api().as(ana).request(method, '/v2/workspaces/members', changed)).status, 200)
    await sleep(1100) // so long a credential may be believed
    t.deepEqual(await Promise.all(ends.map(end => end())), [commit, file] as never)
    t.deepEqual(await deploys(app.id), [])
    t.is(await bodies(), stored)
  })
