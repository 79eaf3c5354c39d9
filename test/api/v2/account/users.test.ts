import test from 'ava'
import { testApi } from '../../../kit/actors/api.ts'

const api = testApi()

test('the profile shows account, plan and applications', async t => {
  const ends = new Date(Date.now() + 86_400_000)
  const ana = await api().makeUser({ plan: 'standard-4', planEndsAt: ends, name: 'Ana Lima' })
  const app = await api().makeApp(ana, { memoryMb: 512, subdomain: `me-${ana.id}` })
  await api().makeApp(ana, { displayName: 'second' })
  const { response } = (await api().as(ana).get('/v2/users/me')).body
  t.is(response.user.id, ana.id)
  t.is(response.user.id, ana.key.split('-')[0])
  t.is(response.user.name, 'Ana Lima')
  t.deepEqual(response.user.plan, {
    name: 'standard-4',
    memory: { limit: 4096, available: 3328, used: 768 },
    duration: ends.getTime(),
  })
  t.deepEqual(response.databases, [])
  t.is(response.applications.length, 2)
  t.deepEqual(response.applications[0], {
    id: app.id,
    name: 'shop',
    ram: 512,
    lang: 'javascript',
    domain: `me-${ana.id}.apps.localhost`,
    custom: null,
    cluster: 'h1',
    created_at: app.created_at.toISOString(),
  })
})

test('a key that is limited to resources sees only those, and the memory of all', async t => {
  const ana = await api().makeUser()
  const [one, two] = [await api().makeApp(ana), await api().makeApp(ana)]
  const { key } = await api().makeKey(ana, { resources: [one.id] })
  const { response } = (await api().as(key).get('/v2/users/me')).body
  t.deepEqual(
    response.applications.map((app: { id: string }) => app.id),
    [one.id],
  )
  t.is(response.user.plan.memory.used, 512)
  t.is((await api().as(key).get(`/v2/apps/${two.id}`)).body.code, 'RESOURCE_NOT_ALLOWED')
  t.is(
    (
      await api()
        .as(key)
        .get(`/v2/apps/${'f'.repeat(24)}`)
    ).body.code,
    'RESOURCE_NOT_ALLOWED',
  )
})

test('an account without plan', async t => {
  const ana = await api().makeUser({ plan: 'free' })
  const { plan } = (await api().as(ana).get('/v2/users/me')).body.response.user
  t.deepEqual(plan, { name: 'free', memory: { limit: 0, available: 0, used: 0 }, duration: null })
})
