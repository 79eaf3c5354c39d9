import type { ExecutionContext } from 'ava'
import type { TestUser } from '../actors/api.ts'
import { webhookOf } from '../git/deliveries.ts'
import type { GitServer, TestRepository } from '../git/git-server.ts'
import { startEntry } from '../platform/entry.ts'
import type { Deployed, TestPlatform } from '../platform/platform.ts'
import { echoProgram, lateProgram, nodeProgram, type Program } from '../programs.ts'
import { diesAt, hostsAt, killAll } from './crash-kit.ts'

export interface Linked extends Deployed {
  repository: TestRepository
  hook: string
  owner: TestUser
}

/** Only an installation runs a build container, and only a program that answers late passes its gate in a step of its own. */
function programFor(point: string, text: string): Program {
  if (/runToEnd|installDependencies/.test(point)) return echoProgram(text)
  return /passHealthGate/.test(point) ? lateProgram(text) : nodeProgram(text)
}

/** A version that exits immediately, with its own configuration. */
const failingProgram = (): Program => {
  const { main, files } = nodeProgram('never')
  const lines = { DISPLAY_NAME: 'of the version that failed', MAIN: main, MEMORY: '512', VERSION: 'recommended' }
  const configuration = Object.entries(lines).map(([name, value]) => `${name}=${value}\n`)
  const brought = { 'brought.txt': 'by the version that failed', 'berth.app': configuration.join('') }
  return { main, files: { ...files, 'index.js': 'process.exit(7)\n', ...brought } }
}

/** An application that serves its first version, and a repository whose pushes call its webhook. */
export async function linked(
  platform: TestPlatform,
  git: GitServer,
  values: Record<string, string | null> = {},
): Promise<Linked> {
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, nodeProgram('the first'), values)
  const hook = await webhookOf(platform.api, ana, app.id, { access_token: git.token })
  const repository = await git.repository({ files: nodeProgram('the first').files })
  repository.hook = { url: platform.api.url + hook, provider: 'github' }
  return { ...app, repository, hook, owner: ana }
}

const deploysOf = (platform: TestPlatform, { id }: Deployed) =>
  platform.db('deployments').where({ app_id: id, source: 'git' })

/** The push became exactly one deployment, which ended as a success, once; only its version is left. */
async function deployedOnce(t: ExecutionContext, platform: TestPlatform, host: string, app: Linked, point: string) {
  const rows = await deploysOf(platform, app)
  t.is(rows.length, 1, point)
  t.like(await platform.ended(rows[0].operation_id, 120), { state: 'success', code: null }, point)
  await platform.serves(app.domain, 'the second', 30)
  const events = await platform.db('deployment_events').where({ deployment_id: rows[0].id }).orderBy('id')
  const states = events.map(event => event.state)
  t.deepEqual(states, ['pending', 'clone', 'commit', 'restarting', 'success'], point)
  const alone = async () => (await platform.remains(host)).containers.join() === `berth-${app.id}-2`
  await platform.until(alone, 120, `the old version is retired after ${point}`)
  t.like(await platform.row(app.id), { status: 'running', desired_state: 'running', release: 2 }, point)
}

/** The push failed as its program does, and the version before is as it was: its configuration, its files, its container, alone. */
async function wentBack(t: ExecutionContext, platform: TestPlatform, host: string, app: Linked, point: string) {
  const rows = await deploysOf(platform, app)
  t.is(rows.length, 1, point)
  t.like(await platform.ended(rows[0].operation_id, 180), { state: 'error', code: 'HEALTH_CHECK_FAILED' }, point)
  const before = { desired_state: 'running', release: 1, undo_failure: null, name: 'test' }
  t.like(await platform.row(app.id), before, point)
  const alone = async () => (await platform.remains(host)).containers.join() === `berth-${app.id}-1`
  await platform.until(alone, 120, `the version that failed is taken away after ${point}`)
  const runs = async () => (await platform.row(app.id))?.status === 'running'
  await platform.until(runs, 120, `the version before runs after ${point}`)
  const as = platform.api.as(app.owner)
  const read = async () => as.get(`/v2/apps/${app.id}/files/content?path=/index.js&encoding=base64`)
  await platform.until(async () => (await read()).status === 200, 60, `the host answers after ${point}`)
  const text = Buffer.from((await read()).body.response.data, 'base64').toString()
  t.is(text, nodeProgram('the first').files['index.js']!, point)
  const names = (await as.get(`/v2/apps/${app.id}/files`)).body.response.map(({ name }: { name: string }) => name)
  t.false(names.includes('brought.txt'), point)
  if (app.domain) await platform.serves(app.domain, 'the first', 30)
}

/** A push and how it ends. */
interface Way {
  program(point: string): Program
  /** Of the application that it comes to. */
  values(point: string): Record<string, string | null>
  check(t: ExecutionContext, platform: TestPlatform, host: string, app: Linked, point: string): Promise<void>
}

const succeeds: Way = {
  program: point => programFor(point, 'the second'),
  values: () => ({}),
  check: deployedOnce,
}

/** Only the version before of a program without a port was stopped, and is started again. */
export const goesBack: Way = {
  program: failingProgram,
  values: (point): Record<string, null> => (/startApp|recordStarted/.test(point) ? { SUBDOMAIN: null } : {}),
  check: wentBack,
}

async function removed(t: ExecutionContext, platform: TestPlatform, { id, owner }: Linked): Promise<void> {
  const answer = await platform.api.as(owner).delete(`/v2/apps/${id}`)
  t.is(answer.status, 200, answer.text)
}

/** Pushes that hosts die of, each at its own point: the n-th application lives on the n-th host. */
export async function deploysSurvive(
  t: ExecutionContext,
  platform: TestPlatform,
  git: GitServer,
  points: readonly string[],
  way: Way = succeeds,
) {
  const first = await hostsAt(platform, points, false)
  const apps: Linked[] = []
  for (const point of points) apps.push(await linked(platform, git, way.values(point)))
  await killAll(first)
  const armed = await hostsAt(platform, points, true)
  for (const [n, point] of points.entries()) {
    const { reply } = await apps[n]!.repository.push(way.program(point).files)
    t.is(reply?.status, 200, reply?.text)
  }
  for (const [n, point] of points.entries()) await diesAt(t, armed[n]!, point)
  const healed = await hostsAt(platform, points, false)
  try {
    for (const [n, point] of points.entries()) await way.check(t, platform, `h${n}`, apps[n]!, point)
    for (const app of apps) await removed(t, platform, app)
  } finally {
    await killAll([...armed, ...healed])
  }
}

/** A push that the workflow worker dies of, and its successor ends. One host `a` runs. */
export async function workerDeploySurvives(
  t: ExecutionContext,
  platform: TestPlatform,
  git: GitServer,
  point: string,
  way: Way = succeeds,
) {
  const first = startEntry('worker', platform.base.settings)
  const app = await linked(platform, git, way.values(point))
  await first.kill('SIGKILL')
  const { lanes } = platform.api.services
  // The relay has something to do only when the wake-up was lost.
  if (point.startsWith('lanes.'))
    Object.assign(platform.api.services, { lanes: { wake: () => Promise.reject(new Error('lost')) } })
  const armed = startEntry('worker', { ...platform.base.settings, CRASH_POINT: point })
  await armed.ready
  const { reply } = await app.repository.push(way.program(point).files)
  t.is(reply?.status, 200, reply?.text)
  await diesAt(t, armed, point)
  Object.assign(platform.api.services, { lanes })
  const healed = startEntry('worker', platform.base.settings)
  try {
    await way.check(t, platform, 'a', app, point)
    await removed(t, platform, app)
  } finally {
    await killAll([armed, healed])
  }
}

/** A push that the API dies of: no answer was given, and what is delivered again is one deployment, whether it was stored or not. */
export async function webhookSurvives(
  t: ExecutionContext,
  platform: TestPlatform,
  git: GitServer,
  { point, stored }: { point: string; stored: boolean },
) {
  const app = await linked(platform, git)
  const deliveryId = `delivery-${point}`
  const armed = await platform.startApiProcess({ CRASH_POINT: point })
  app.repository.hook = { url: armed.url + app.hook, provider: 'github', deliveryId }
  const files = nodeProgram('the second').files
  await t.throwsAsync(app.repository.push(files))
  t.is(await armed.api.ended, 'SIGKILL', armed.api.output().slice(-1000))
  t.is((await deploysOf(platform, app)).length, stored ? 1 : 0, point)
  const healed = await platform.startApiProcess()
  try {
    app.repository.hook = { url: healed.url + app.hook, provider: 'github', deliveryId }
    const again = await app.repository.deliver()
    t.is(again.status, 200, again.text)
    t.regex(again.text, stored ? /^duplicate:/ : /^queued:/, point)
    await deployedOnce(t, platform, 'a', app, point)
    await removed(t, platform, app)
  } finally {
    await healed.api.kill('SIGKILL')
  }
}
