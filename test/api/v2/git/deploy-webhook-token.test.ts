import test from 'ava'
import { testProviderApi } from '../../../kit/git/connected.ts'

const { api, provider } = await testProviderApi()

const set = async (access_token: string) => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  return api().as(ana).post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token }))
}

test.afterEach(() => {
  provider.takeOver = () => false
})

test.serial(
  'a token that its own provider refuses is INVALID_ACCESS_TOKEN; of other servers it asks nobody',
  async t => {
    for (const token of ['ghp_nobody', 'github_pat_11_nobody']) {
      const refused = await set(token)
      t.deepEqual([refused.status, refused.body.code], [400, 'INVALID_ACCESS_TOKEN'], token)
    }
    t.true(provider.requests.some(({ authorization }) => authorization === 'Bearer ghp_nobody'))
    const asked = provider.requests.length
    for (const token of ['glpat-other', 'a'.repeat(40), 'ATBBx', 'ghp_with space'])
      t.is((await set(token)).status, 200, token)
    t.is(provider.requests.length, asked)
  },
)

test.serial('a provider that knows the token, fails, or is silent for 5 s refuses nothing', async t => {
  for (const status of [200, 403, 500]) {
    provider.takeOver = (_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
      return true
    }
    t.is((await set('ghp_some')).status, 200, String(status))
  }
  provider.takeOver = () => true
  const startedAt = performance.now()
  t.is((await set('ghp_some')).status, 200)
  t.true(performance.now() - startedAt < 6500, `${performance.now() - startedAt}`)
})

test.serial('an application that is deleted while the provider is queried is APP_NOT_FOUND', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  provider.takeOver = (_, response) => {
    const deleting = api().db('apps').where({ id: app.id }).delete()
    deleting.finally(() => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'))
    return true
  }
  const { status, body } = await api()
    .as(ana)
    .post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: 'ghp_some' }))
  t.deepEqual([status, body.code], [404, 'APP_NOT_FOUND'])
})
