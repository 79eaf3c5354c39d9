import test from 'ava'
import * as hosts from '../../db/hosts.ts'
import { unreachableAfterSeconds } from '../../policy/patience.ts'
import { type Entry, startEntry } from '../kit/entry.ts'
import { testPlatform } from '../kit/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

// Declared before the platform's own end: a host that lives would bring back what is taken away.
let second: Entry
test.serial.after.always('end the second host', async () => {
  await second?.kill('SIGKILL')
})

// Two hosts on one engine: `a` in this process, `b` as a process of its own that can be killed.
const started = testPlatform({ hosts: { a: { HOST_MEMORY_MB: '4096' } } })

async function startSecond(): Promise<void> {
  const platform = await started
  platform.clearLater('b')
  const { child, ...entry } = startEntry('host', platform.hostSettings('b', { HOST_MEMORY_MB: '3072' }))
  second = { child, ...entry }
  await second.ready
}

const apps: Record<'onA' | 'onB' | 'nextOnA', { id: string; domain: string }> = {} as never
let ana: Awaited<ReturnType<Awaited<typeof started>['api']['makeUser']>>

test.serial('applications go where most memory is free', async t => {
  t.timeout(90_000)
  const platform = await started
  await startSecond()
  ana = await platform.api.makeUser()
  // 4096 beside 3072, then 3072 beside 3072 (equal: by name), then 2048 beside 3072.
  apps.onA = await platform.deploy(ana, nodeProgram('first'), { MEMORY: '1024' })
  apps.nextOnA = await platform.deploy(ana, nodeProgram('second'), { MEMORY: '1024' })
  apps.onB = await platform.deploy(ana, nodeProgram('third'), { MEMORY: '1024' })
  const places = await Promise.all([apps.onA, apps.nextOnA, apps.onB].map(({ id }) => platform.row(id)))
  t.deepEqual(
    places.map(row => row?.host_id),
    [platform.hostId('a'), platform.hostId('a'), platform.hostId('b')],
  )
  for (const [{ domain }, text] of [
    [apps.onA, 'first'],
    [apps.nextOnA, 'second'],
    [apps.onB, 'third'],
  ] as const)
    t.is((await platform.page(domain)).body, text)
  t.is((await platform.remains('a')).containers.length, 2)
  t.is((await platform.remains('b')).containers.length, 1)
})

const statusOf = async ({ id }: { id: string }) =>
  (await (await started).api.as(ana).get(`/v2/apps/${id}/status`)).body.response

test.serial('a host that falls silent is noticed within seconds; nothing of it is shown as stopped', async t => {
  t.timeout(150_000)
  const platform = await started
  const as = platform.api.as(ana)
  const containers = (await platform.remains('b')).containers
  const before = await platform.row(apps.onB.id)
  await second.kill('SIGKILL')
  await platform.until(async () => (await statusOf(apps.onB)).status === 'unreachable', 60, 'the silence is noticed')
  t.is(unreachableAfterSeconds, 5)
  t.like(await statusOf(apps.onB), { status: 'unreachable', running: true })
  t.like(await statusOf(apps.onA), { status: 'running', running: true })
  t.is((await platform.page(apps.onB.domain)).body, 'third', 'the application itself runs on')
  t.like(await as.get(`/v2/apps/${apps.onB.id}/logs`), { status: 503, body: { code: 'CLUSTER_UNAVAILABLE' } })

  const timed = async (ask: () => Promise<{ status: number; body: { code: string } }>) => {
    const begun = Date.now()
    const { status, body } = await ask()
    return { status, code: body.code, soon: Date.now() - begun < 60_000 }
  }
  // One after the other they would take the deadline each; a lane takes them in turn anyhow.
  const [stop, other] = await Promise.all([
    timed(() => as.post(`/v2/apps/${apps.onB.id}/stop`)),
    timed(() => as.post(`/v2/apps/${apps.onA.id}/restart`)),
  ])
  t.deepEqual(stop, { status: 409, code: 'ACTION_FAILED', soon: true })
  t.is(other.status, 200, 'the other host is not concerned')
  t.deepEqual(await timed(() => as.post(`/v2/apps/${apps.onB.id}/restart`)), {
    status: 409,
    code: 'ACTION_FAILED',
    soon: true,
  })
  t.deepEqual(await timed(() => as.delete(`/v2/apps/${apps.onB.id}`)), {
    status: 404,
    code: 'DELETE_ERROR',
    soon: true,
  })
  t.like(await platform.row(apps.onB.id), { status: 'running', desired_state: 'running' })

  const placed = await platform.deploy(ana, nodeProgram('fourth'), { MEMORY: '1024' })
  t.is((await platform.row(placed.id))?.host_id, platform.hostId('a'), 'nothing is placed on it')
  t.is((await as.delete(`/v2/apps/${placed.id}`)).status, 200)

  await startSecond()
  await platform.until(async () => (await statusOf(apps.onB)).status === 'running', 10, 'it is reachable again')
  t.deepEqual((await platform.remains('b')).containers, containers)
  t.is((await platform.row(apps.onB.id))?.container_id, before?.container_id)
  t.is((await platform.page(apps.onB.domain)).body, 'third')
  t.is((await as.post(`/v2/apps/${apps.onB.id}/restart`)).status, 200)
})

test.serial('drained, full and silent hosts: what an upload is told', async t => {
  t.timeout(90_000)
  const platform = await started
  const [a, b] = [platform.hostId('a'), platform.hostId('b')]
  const codeOf = async (memory: string) =>
    (await platform.upload(ana, nodeProgram('never'), { MEMORY: memory, SUBDOMAIN: null })).body.code
  t.is(await codeOf('3072'), 'FAILED_CLUSTER_SELECTION', 'no host has so much left')
  await hosts.setDraining(platform.db, a, true)
  const elsewhere = await platform.deploy(ana, nodeProgram('elsewhere'), { MEMORY: '512' })
  t.is((await platform.row(elsewhere.id))?.host_id, b)
  t.is((await platform.api.as(ana).post(`/v2/apps/${apps.onA.id}/restart`)).status, 200, 'what is there runs on')
  await hosts.setDraining(platform.db, b, true)
  t.is(await codeOf('256'), 'CLUSTER_MAINTENANCE_TRY_LATER')
  t.deepEqual((await platform.storedBodies()).length, 4, 'refused archives are not kept')
  await hosts.setDraining(platform.db, a, false)
  await platform.hosts.get('a')?.stop()
  t.is(await codeOf('256'), 'CLUSTER_MAINTENANCE_TRY_LATER', 'the open one is silent')
  await platform.startHost('a', { HOST_MEMORY_MB: '4096' })
  await platform.until(async () => (await statusOf(apps.onA)).status === 'running', 30, 'it is back')
  t.is((await platform.api.as(ana).post(`/v2/apps/${apps.onA.id}/stop`)).status, 200)
})
