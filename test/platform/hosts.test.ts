import { spawn } from 'node:child_process'
import test from 'ava'
import * as hosts from '../../db/hosts/hosts.ts'
import { masterKey } from '../kit/actors/api.ts'
import { operatorCommand } from '../kit/actors/operator-command.ts'
import { checkout } from '../kit/command.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { productArguments } from '../kit/product.ts'
import { nodeProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

// Declared before the platform's own hook: a running host would bring back what is removed.
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

test.serial('applications are placed on the host with the most free memory', async t => {
  t.timeout(90_000)
  const platform = await started
  await startSecond()
  ana = await platform.api.makeUser()
  // 4096 and 3072, then 3072 and 3072 (equal: by name), then 2048 and 3072.
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

test.serial('a silent host is detected; none of its applications is shown as stopped', async t => {
  t.timeout(150_000)
  const platform = await started
  const as = platform.api.as(ana)
  const containers = (await platform.remains('b')).containers
  const before = await platform.row(apps.onB.id)
  await second.kill('SIGKILL')
  await platform.until(async () => (await statusOf(apps.onB)).status === 'unreachable', 60, 'the silence is noticed')
  t.like(await statusOf(apps.onB), { status: 'unreachable', running: true })
  t.like(await statusOf(apps.onA), { status: 'running', running: true })
  t.is((await platform.page(apps.onB.domain)).body, 'third', 'the application itself runs on')
  t.like(await as.get(`/v2/apps/${apps.onB.id}/logs`), { status: 503, body: { code: 'CLUSTER_UNAVAILABLE' } })

  const timed = async (ask: () => Promise<{ status: number; body: { code: string } }>) => {
    const startedAt = Date.now()
    const { status, body } = await ask()
    return { status, code: body.code, soon: Date.now() - startedAt < 60_000 }
  }
  // Sequentially each would take its whole deadline; a lane serializes them anyway.
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

test.serial('an upload is answered by whether hosts are drained, full or silent', async t => {
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

/** `berth hosts forget b` by an operator. */
async function forgetting() {
  const { base, hostId } = await started.then(platform => ({ base: platform.base, hostId: platform.hostId('b') }))
  const settings = { ...base.settings, BERTH_MASTER_KEY: masterKey, BERTH_DATA: base.folder }
  const args = ['hosts', 'forget', hostId, '--yes', '--json']
  const whole = () => operatorCommand(settings, ...args)
  /** The same, killed once `at` comes true. */
  const killed = async (at: () => Promise<boolean>) => {
    const platform = await started
    const env = { ...process.env, ...settings }
    const child = spawn(process.execPath, [...productArguments('cli/main'), ...args], { cwd: checkout, env })
    const ended = new Promise(resolve => child.once('exit', (_, signal) => resolve(signal)))
    await platform.until(at, 60, 'the command comes to where it is killed')
    child.kill('SIGKILL')
    return ended
  }
  return { whole, killed }
}

test.serial('a lost host is forgotten: what owners can do, and what the host may do', async t => {
  t.timeout(480_000)
  const platform = await started
  const { db } = platform
  const [a, b] = [platform.hostId('a'), platform.hostId('b')]
  const eva = await platform.api.makeUser()
  const as = platform.api.as(eva)
  await hosts.setDraining(db, b, false)
  await hosts.setDraining(db, a, true)
  const kept = await platform.deploy(eva, nodeProgram('kept in a snapshot'), { MEMORY: '512' })
  const lost = await platform.deploy(eva, nodeProgram('without a snapshot'), { MEMORY: '256', SUBDOMAIN: null })
  await hosts.setDraining(db, a, false)
  for (const { id } of [kept, lost]) t.is((await platform.row(id))?.host_id, b)
  const snapshots = `/v2/apps/${kept.id}/snapshots`
  t.is((await as.post(snapshots)).status, 200)
  const [{ name: snapshotId, version_id: versionId }] = (await as.get(snapshots)).body.response

  await second.kill('SIGKILL')
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram('never').files))]), 'app.zip')
  const waits = (await as.post(`/v2/apps/${kept.id}/commit`, form)).headers.get('x-operation-id') as string
  const state = async () => (await db('operations').where({ id: waits }).first('state')).state
  await platform.until(async () => (await state()) === 'running', 60, 'a deploy waits for the host')
  const free = () => db('host_leases').where({ host_id: b }).whereRaw('held_until < clock_timestamp()').first('host_id')
  await platform.until(async () => Boolean(await free()), 60, 'its lease has run out')

  const { whole, killed } = await forgetting()
  const forgotten = async () => (await hosts.findHost(db, b))?.forgotten_at != null
  // Before its commit: it waits for the row of the host, which this transaction has.
  await db.transaction(async trx => {
    await trx('hosts').where({ id: b }).forUpdate().first()
    const { rows: me } = await trx.raw('select pg_backend_pid() as pid')
    const blocked = `select 1 from pg_stat_activity where ${me[0].pid} = any(pg_blocking_pids(pid))`
    t.is(await killed(async () => (await db.raw(blocked)).rows.length > 0), 'SIGKILL')
  })
  t.false(await forgotten(), 'nothing was done')
  // After it: the worker is held up by the row of an application.
  await db.transaction(async trx => {
    await trx('apps').where({ id: kept.id }).forUpdate().first()
    t.is(await killed(forgotten), 'SIGKILL')
  })
  await platform.until(async () => (await state()) !== 'running', 60, 'the worker ends what waited')
  const reported = await whole()
  t.is(reported.code, 0, reported.stderr)
  t.like(JSON.parse(reported.stdout), { host: b, restorable: 1, operations: 0, settled: true })

  t.like(await platform.ended(waits), { state: 'error', code: 'CLUSTER_UNAVAILABLE' })
  t.like((await as.get('/v2/users/me')).body.response.user.plan.memory, { used: 0 })
  for (const { id } of [kept, lost]) {
    const stats = (await as.get(`/v2/apps/${id}/status`)).body.response
    t.like(stats, { status: 'exited', running: false, problem: { code: 'CLUSTER_UNAVAILABLE' } })
    t.deepEqual((await as.get(`/v2/apps/${id}`)).body.response.problem, stats.problem)
    const start = await as.post(`/v2/apps/${id}/start`)
    t.deepEqual([start.status, start.body], [409, { status: 'error', code: 'ACTION_FAILED' }])
  }
  t.is((await as.delete(`/v2/apps/${lost.id}`)).status, 200, 'no host is needed to delete it')
  t.is(await platform.row(lost.id), undefined)

  const restored = await as.post(`${snapshots}/restore`, JSON.stringify({ snapshotId, versionId }))
  t.true([200, 202].includes(restored.status), restored.text)
  t.like(await platform.ended(restored.headers.get('x-operation-id') as string, 120), { state: 'success' })
  await platform.serves(kept.domain, 'kept in a snapshot')
  const row = await platform.row(kept.id)
  t.like(row, { host_id: a, status: 'running', lost_with: null })
  t.is((await db('apps').where({ host_id: a, uid: row?.uid })).length, 1)
  t.true((await platform.remains('a')).containers.some(container => container.startsWith(`berth-${kept.id}-`)))
  t.is((await as.get(`/v2/apps/${kept.id}`)).body.response.problem, undefined)
  t.like((await as.get('/v2/users/me')).body.response.user.plan.memory, { used: 512 })

  // Hosts of this test share one engine: the one that restored has retired the version before by its name.
  const ofOthers = (name: string) => !name.includes(kept.id)
  const remains = async () => Object.values(await platform.remains('b')).map(names => names.filter(ofOthers).toSorted())
  const there = await remains()
  t.true(there.every(names => names.length > 0))
  const back = startEntry('host', platform.hostSettings('b'))
  t.teardown(() => back.kill('SIGKILL'))
  t.is(await back.ended, 1, 'it comes back after all, and is refused')
  t.regex(back.output(), new RegExp(`The host ${b} was forgotten`))
  t.deepEqual(await remains(), there, 'it has removed nothing')
  t.is((await as.post(`/v2/apps/${kept.id}/restart`)).status, 200)
})
