import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { containersLiveOn } from '../../cli/services/engine/answers.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { type Deployed, testPlatform } from '../kit/platform/platform.ts'
import { reachedFrom } from '../kit/platform/reached-from.ts'
import { nodeProgram, type Program } from '../kit/programs.ts'
import { demandRoot } from '../kit/root.ts'
import { secondEngine } from '../kit/servers/second-engine.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform({ hosts: {} })

const worker: Program = {
  main: 'index.js',
  files: { 'index.js': `setInterval(() => {}, 1000); process.on('SIGUSR2', () => process.exit(3))` },
}
/** Answers 5 s after its start. */
const lateProgram = (text: string): Program => {
  const { files, main } = nodeProgram(text)
  return { main, files: { [main]: `setTimeout(() => { ${files[main]} }, 5000)` } }
}
const silent = { SUBDOMAIN: null, MEMORY: '256' }

test('after an engine restart every application that ran is back, with and without live-restore, and no other', async t => {
  demandRoot()
  t.timeout(400_000)
  const platform = await started
  const { api, db } = platform
  const docker = await secondEngine(t)
  await docker.start({ liveRestore: false })
  await docker.engine.ensureImage('berth/node:22')
  platform.clearLater('a')
  const settings = { ...(await reachedFrom(docker.addresses.machine, platform, t)), DOCKER_HOST: docker.address }
  // One address for all, so that a port of one application may be dealt to another one.
  const own = platform.hostSettings('a', {
    ...settings,
    HOST_ADDRESS: docker.addresses.engine,
    HEALTH_GATE_SECONDS: '40',
  })
  const begin = async () => {
    const host = startEntry('host', own, docker.through)
    t.teardown(() => host.kill('SIGKILL'))
    await host.ready
    return host
  }
  let host = await begin()
  const [ana, ben] = [await api.makeUser(), await api.makeUser()]
  const [a, b, background, finished, leaver, stopped] = await Promise.all([
    platform.deploy(ana, nodeProgram('this is a')),
    platform.deploy(ben, nodeProgram('this is b')),
    platform.deploy(ana, worker, silent),
    platform.deploy(ana, worker, silent),
    platform.deploy(ana, worker, silent),
    platform.deploy(ana, nodeProgram('stopped')),
  ])
  for (const { operation } of [a, b, background, finished, leaver, stopped])
    t.is(operation.state, 'success', operation.message ?? undefined)
  const ran = [a, b, background]
  const web = { a, b }
  t.is((await api.as(ana).post(`/v2/apps/${stopped.id}/stop`)).status, 200)
  const containerOf = ({ id }: Deployed) => `berth-${id}-1`
  const exited = async ({ id }: Deployed) => (await platform.row(id))?.status === 'exited'
  ;(await docker.processOf(containerOf(finished))).kill('SIGUSR2')
  await platform.until(() => exited(finished), 60, 'one ends by itself')

  const seen = { a: new Set<string>(), b: new Set<string>() }
  let over = false
  const asking = Object.entries(web).map(async ([name, { domain }]) => {
    for (; !over; await sleep(20)) {
      const { status, body } = await platform.page(domain).catch(error => ({ status: 0, body: String(error) }))
      seen[name as keyof typeof web].add(status === 200 ? body : String(status))
    }
  })
  t.teardown(() => {
    over = true
  })

  const startsOf = async () =>
    Promise.all(ran.map(async app => (await docker.engine.inspect(containerOf(app)))?.startedAt?.getTime() ?? 0))
  const statusOf = async ({ id }: Deployed) => {
    const { status, running } = (await api.as(id === b.id ? ben : ana).get(`/v2/apps/${id}/status`)).body.response
    return `${status}, ${running ? 'it runs' : 'nothing runs'}`
  }
  const allRun = async () => (await Promise.all(ran.map(statusOf))).every(reported => reported === 'running, it runs')
  const bootOf = async () =>
    (
      await db('hosts')
        .where({ id: platform.hostId('a') })
        .first('boot_id')
    ).boot_id as string
  const known = async (apps: Deployed[]) => {
    const boot = await bootOf()
    const rows = await Promise.all(apps.map(({ id }) => platform.row(id)))
    return rows.every(row => row?.status === 'running' && row.boot_id === boot)
  }

  /** Applications that ran run again, started `restarted` or not; those that had ended are unchanged. */
  async function stands(before: number[], restarted: boolean, what: string) {
    const asWanted = async () => (await startsOf()).every((at, n) => (restarted ? at > before[n]! : at === before[n]))
    await platform.until(async () => (await asWanted()) && (await known(ran)), 90, `what ran runs ${what}`)
    for (const [name, { domain }] of Object.entries(web))
      t.is((await platform.serves(domain, '', 60)).body, `this is ${name}`, what)
    await platform.until(allRun, 60, `all that ran is reported to run ${what}`)
    t.is(await statusOf(finished), 'exited, nothing runs', what)
    t.is((await platform.row(finished.id))?.exit_code, 3, what)
    t.is(await statusOf(stopped), 'exited, nothing runs', what)
  }
  async function restart(signal: 'SIGTERM' | 'SIGKILL', liveRestore: boolean) {
    await docker.end(signal)
    await docker.start({ liveRestore })
  }

  t.false(await containersLiveOn(docker.address))
  let before = await startsOf()
  await restart('SIGTERM', false)
  await stands(before, true, 'after an engine that takes its containers down')

  // In containers the host process ends with its engine, and remembers nothing.
  before = await startsOf()
  await host.kill('SIGTERM')
  await restart('SIGTERM', true)
  t.true(await containersLiveOn(docker.address))
  host = await begin()
  await stands(before, true, 'after an engine that took them down, and would not any more')

  // Its own end is its own, whether the engine was there to see it or not.
  before = await startsOf()
  const boot = await bootOf()
  const program = await docker.processOf(containerOf(leaver))
  await docker.end('SIGTERM')
  program.kill('SIGKILL')
  await docker.start({ liveRestore: true })
  await platform.until(() => exited(leaver), 60, 'what ended meanwhile is known to have')
  t.like(await platform.row(leaver.id), { exit_code: 137, exit_oom: false })
  await stands(before, false, 'on after an engine that was away')
  await restart('SIGKILL', true)
  await stands(before, false, 'on after an engine that was killed')
  t.is(await bootOf(), boot)

  await restart('SIGKILL', false)
  await stands(before, true, 'after an engine that takes down what it finds')

  // An application that cannot be started loses its port to another one, but not its name.
  before = await startsOf()
  await db('app_variables').insert({ app_id: a.id, name: 'UNREADABLE', value_sealed: Buffer.alloc(60, 1) })
  await restart('SIGKILL', false)
  const others = [b, background]
  await platform.until(async () => (await startsOf()).every((at, n) => n === 0 || at > before[n]!), 90, 'others run')
  await platform.until(() => known(others), 60, 'others are known to run')
  const refused = () => db('operations').where({ target_id: a.id, actor: 'host-watch', state: 'error' }).first('id')
  await platform.until(refused, 60, 'it does not start')
  t.is((await platform.serves(b.domain, '', 60)).body, 'this is b')
  const { status, headers } = await platform.page(a.domain)
  t.deepEqual([status, headers['retry-after']], [503, '2'])
  await db('app_variables').where({ app_id: a.id }).delete()
  await stands(before, true, 'after an engine that was killed, and one that could not be started')
  t.is(await statusOf(leaver), 'exited, nothing runs')

  over = true
  await Promise.all(asking)
  for (const [name, answers] of Object.entries(seen))
    t.deepEqual(
      [...answers].filter(text => !['502', '503', '504'].includes(text)),
      [`this is ${name}`],
    )

  // The new version of `b` takes a while to answer, and its engine ends meanwhile: it serves at its present port.
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf(lateProgram('this is new').files))]), 'next.zip')
  const pushed = await api.as(ben).post(`/v2/apps/${b.id}/commit`, form)
  t.is(pushed.status, 200, pushed.text)
  await platform.until(async () => (await docker.engine.inspect(`berth-${b.id}-2`))?.running, 60, 'it is asked')
  await restart('SIGTERM', false)
  t.like(await platform.ended(pushed.headers.get('x-operation-id')!), { state: 'success', code: null })
  const { release, boot_id, host_port } = (await platform.row(b.id))!
  t.deepEqual([release, boot_id], [2, await bootOf()])
  t.is(host_port, (await docker.engine.inspect(`berth-${b.id}-2`))!.hostPort)
  t.is((await platform.page(b.domain)).body, 'this is new')
})
