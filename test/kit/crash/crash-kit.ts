import { setTimeout as sleep } from 'node:timers/promises'
import type { ExecutionContext } from 'ava'
import type { TestUser } from '../actors/api.ts'
import { type Entry, startEntry } from '../platform/entry.ts'
import type { Deployed, TestPlatform } from '../platform/platform.ts'
import { echoProgram, lateProgram, nodeProgram, type Program } from '../programs.ts'

const nothing = { containers: [], networks: [], volumes: [], mounts: [] }

/** Resolves when the process has died at its point. */
export async function diesAt(t: ExecutionContext, entry: Entry, point: string): Promise<void> {
  const end = await Promise.race([entry.ended, sleep(120_000, 'alive after two minutes', { ref: false })])
  t.is(end, 'SIGKILL', `${point}: ${entry.output().slice(-1000)}`)
}

/**
 * The program whose creation comes to this point: only after an installation are its files placed by a step of their own, and only a
 * program that answers late passes its gate in one.
 */
function programFor(point: string): Program {
  if (/runToEnd|installDependencies|placeFiles/.test(point)) return echoProgram('survived')
  return /passHealthGate/.test(point) ? lateProgram('survived') : nodeProgram('survived')
}

/** An installation that fails. */
const failingProgram = (): Program => {
  const { main, files } = nodeProgram('never')
  return { main, files: { ...files, 'package.json': '{"scripts":{"preinstall":"exit 7"}}' } }
}

async function runsOnce(t: ExecutionContext, platform: TestPlatform, host: string, { id, domain }: Deployed) {
  await platform.serves(domain, 'survived', 30)
  const remains = await platform.remains(host)
  t.deepEqual(remains.containers, [`berth-${id}-1`], host)
  t.deepEqual(remains.volumes, [id], host)
  t.like(await platform.row(id), { status: 'running', desired_state: 'running' })
}

/** The n-th host as a process of its own, with room for exactly one application: the n-th upload goes to the n-th host. */
async function hostAt(platform: TestPlatform, n: number, point?: string): Promise<Entry> {
  platform.clearLater(`h${n}`)
  const own = { HOST_MEMORY_MB: '512', ...(point && { CRASH_POINT: point }) }
  const entry = startEntry('host', platform.hostSettings(`h${n}`, own))
  await entry.ready
  return entry
}

/** A host for each point. */
export const hostsAt = (platform: TestPlatform, points: readonly string[], armed: boolean): Promise<Entry[]> =>
  Promise.all(points.map((point, n) => hostAt(platform, n, armed ? point : undefined)))

export const killAll = (entries: readonly Entry[]) => Promise.all(entries.map(entry => entry.kill('SIGKILL')))

/** Creations that hosts die in, each at its own point: after they came back everyone runs, exactly once. */
export async function creationsSurvive(t: ExecutionContext, platform: TestPlatform, points: readonly string[]) {
  const ana = await platform.api.makeUser()
  const armed = await hostsAt(platform, points, true)
  const apps: Deployed[] = []
  for (const point of points) apps.push(await platform.upload(ana, programFor(point)))
  for (const [n, point] of points.entries()) {
    t.is(apps[n]?.status, 200, apps[n]?.text)
    await diesAt(t, armed[n] as Entry, point)
  }
  const healed = await hostsAt(platform, points, false)
  try {
    for (const [n, app] of apps.entries()) {
      t.like(await platform.ended(app.operationId), { state: 'success', code: null }, points[n])
      t.is((await platform.row(app.id))?.host_id, platform.hostId(`h${n}`))
      await runsOnce(t, platform, `h${n}`, app)
    }
    for (const app of apps) t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
  } finally {
    await killAll([...armed, ...healed])
  }
}

type Verb = 'start' | 'stop' | 'restart' | 'delete'

/** The answer to a caller who repeats a failed request and finds that the interrupted attempt has taken effect. */
const already: Partial<Record<Verb, string>> = {
  start: 'CONTAINER_ALREADY_STARTED',
  stop: 'CONTAINER_ALREADY_STOPPED',
  delete: 'APP_NOT_FOUND',
}

const command = (platform: TestPlatform, user: TestUser, { id }: Deployed, verb: Verb) =>
  verb === 'delete'
    ? platform.api.as(user).delete(`/v2/apps/${id}`)
    : platform.api.as(user).post(`/v2/apps/${id}/${verb}`)

/** Commands during which hosts die, each at its own point: the caller gets the true outcome, and the requested state. */
export async function commandsSurvive(
  t: ExecutionContext,
  platform: TestPlatform,
  cases: readonly (readonly [verb: Verb, point: string])[],
) {
  const ana = await platform.api.makeUser()
  const points = cases.map(([, point]) => point)
  const first = await hostsAt(platform, points, false)
  const apps: Deployed[] = []
  for (const _ of cases) apps.push(await platform.deploy(ana, nodeProgram('survived')))
  for (const [n, [verb]] of cases.entries())
    if (verb === 'start') t.is((await command(platform, ana, apps[n] as Deployed, 'stop')).status, 200)
  await killAll(first)
  const armed = await hostsAt(platform, points, true)
  const startedAt = performance.now()
  const asked = cases.map(([verb], n) => command(platform, ana, apps[n] as Deployed, verb))
  /** When each host was back, in seconds since the commands. */
  const back: number[] = []
  const healed = await Promise.all(
    points.map(async (point, n) => {
      await diesAt(t, armed[n] as Entry, point)
      const entry = await hostAt(platform, n)
      back[n] = (performance.now() - startedAt) / 1000
      return entry
    }),
  )
  try {
    for (const [n, [verb, point]] of cases.entries()) {
      const app = apps[n] as Deployed
      const answer = await asked[n]
      // On a machine that is slow the host may come back too late: its death is noticed after 15 s, and the step waits for it for
      // 8 s then. The caller got that answer, and repeats the request.
      const refused = ['ACTION_FAILED', 'DELETE_ERROR'].includes(answer?.body.code)
      if (refused) t.true(back[n]! > 20, `${verb} ${point}: ${answer?.text}, though the host was back`)
      const last = refused ? await command(platform, ana, app, verb) : answer
      const done = last?.status === 200 || (refused && last?.body.code === already[verb])
      t.true(done, `${verb} ${point}: ${answer?.text} ${last?.text}`)
      if (verb === 'stop') {
        const ended = async () => (await platform.row(app.id))?.status === 'exited'
        await platform.until(ended, 30, `it is shown as stopped after ${point}`)
        t.like(await platform.row(app.id), { desired_state: 'stopped' }, point)
        const away = async () => (await platform.page(app.domain)).status === 404
        await platform.until(away, 30, `its route is removed after ${point}`)
      } else if (verb !== 'delete') await runsOnce(t, platform, `h${n}`, app)
      if (verb !== 'delete') t.is((await command(platform, ana, app, 'delete')).status, 200)
      const removed = async () => (await platform.remains(`h${n}`)).networks.length === 0
      await platform.until(removed, 40, `the network is removed after ${verb} ${point}`)
      t.deepEqual(await platform.remains(`h${n}`), nothing, `${verb} ${point}`)
    }
  } finally {
    await killAll([...armed, ...healed])
  }
}

/** A creation in which the workflow worker dies, and its successor ends what it began. One host `a` runs. */
export async function workerCreationSurvives(t: ExecutionContext, platform: TestPlatform, point: string) {
  const ana = await platform.api.makeUser()
  const { lanes } = platform.api.services
  // The relay has something to do only when the wake-up was lost.
  const asleep = { wake: () => Promise.reject(new Error('lost')) }
  if (point.startsWith('lanes.')) Object.assign(platform.api.services, { lanes: asleep })
  const armed = startEntry('worker', { ...platform.base.settings, CRASH_POINT: point })
  await armed.ready
  const app = await platform.upload(ana, nodeProgram('survived'))
  t.is(app.status, 200, app.text)
  await diesAt(t, armed, point)
  Object.assign(platform.api.services, { lanes })
  const healed = startEntry('worker', platform.base.settings)
  try {
    t.like(await platform.ended(app.operationId), { state: 'success', code: null }, point)
    await runsOnce(t, platform, 'a', app)
    t.is((await command(platform, ana, app, 'delete')).status, 200)
    await leavesNothing(t, platform)
  } finally {
    await killAll([armed, healed])
  }
}

/** A creation that fails, and whose reason the workflow worker dies of: its successor records it, and nothing else is left. */
export async function workerFailureSurvives(t: ExecutionContext, platform: TestPlatform, point: string) {
  const ana = await platform.api.makeUser()
  const armed = startEntry('worker', { ...platform.base.settings, CRASH_POINT: point })
  await armed.ready
  const app = await platform.upload(ana, failingProgram())
  t.is(app.status, 200, app.text)
  await diesAt(t, armed, point)
  const healed = startEntry('worker', platform.base.settings)
  try {
    t.like(await platform.ended(app.operationId), { state: 'error', code: 'BUILD_FAILED' }, point)
    const deleted = async () => (await platform.row(app.id)) === undefined
    await platform.until(deleted, 40, 'memory and name are free again')
    t.is((await platform.db('deployments').where({ app_id: app.id, state: 'error' })).length, 1, point)
    await leavesNothing(t, platform)
  } finally {
    await killAll([armed, healed])
  }
}

/** A command during which the workflow worker dies: its caller waits and gets the true outcome. */
export async function workerCommandSurvives(t: ExecutionContext, platform: TestPlatform, verb: Verb, point: string) {
  const ana = await platform.api.makeUser()
  const first = startEntry('worker', platform.base.settings)
  const app = await platform.deploy(ana, nodeProgram('survived'))
  if (verb === 'start') t.is((await command(platform, ana, app, 'stop')).status, 200)
  await first.kill('SIGKILL')
  const armed = startEntry('worker', { ...platform.base.settings, CRASH_POINT: point })
  await armed.ready
  const asked = command(platform, ana, app, verb)
  await diesAt(t, armed, point)
  const healed = startEntry('worker', platform.base.settings)
  try {
    t.is((await asked).status, 200, `${verb} ${point}`)
    if (verb === 'stop') t.like(await platform.row(app.id), { status: 'exited', desired_state: 'stopped' }, point)
    else if (verb !== 'delete') await runsOnce(t, platform, 'a', app)
    if (verb !== 'delete') t.is((await command(platform, ana, app, 'delete')).status, 200)
    await leavesNothing(t, platform)
  } finally {
    await killAll([armed, healed])
  }
}

async function leavesNothing(t: ExecutionContext, platform: TestPlatform): Promise<void> {
  await platform.until(async () => (await platform.remains()).networks.length === 0, 40, 'nothing is left')
  t.deepEqual(await platform.remains(), nothing)
  t.deepEqual(await platform.base.proxy.edge.listRoutes(), [])
}
