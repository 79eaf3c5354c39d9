import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { openVolumes } from '../../../activities/volumes/choice.ts'
import type { TestUser } from '../actors/api.ts'
import { give, lay, seen } from '../folders.ts'
import { startEntry } from '../platform/entry.ts'
import type { Deployed, TestPlatform } from '../platform/platform.ts'
import { lateProgram } from '../programs.ts'
import { diesAt, hostsAt, killAll } from './crash-kit.ts'

interface Kept extends Deployed {
  owner: TestUser
  files: string
  path: string
}

/** An application that serves, with some files of its own. */
async function written(platform: TestPlatform, text: string, host: string): Promise<Kept> {
  const owner = await platform.api.makeUser()
  const app = await platform.deploy(owner, lateProgram(text))
  const root = join(platform.base.folder, 'hosts', platform.hostId(host))
  const { volumes } = await openVolumes({ root, quota: platform.base.config.host.quota })
  const files = join(volumes.path(app.id), 'files')
  lay(files, {
    'data/a.txt': 'a'.repeat(200_000),
    'data/größe': '',
    'data/link': { link: '../index.js' },
    'data/empty': null,
  })
  give(files, (await platform.row(app.id))!.uid)
  return { ...app, owner, files, path: `/v2/apps/${app.id}/snapshots` }
}

/** The answer to a snapshot or restore is 200, or that it is in progress; both end as a success. */
async function endsWell(
  t: ExecutionContext,
  platform: TestPlatform,
  answer: Awaited<ReturnType<typeof post>>,
  point: string,
) {
  t.true([200, 202].includes(answer.status), `${point}: ${answer.text}`)
  const id = answer.headers.get('x-operation-id') as string
  t.like(await platform.ended(id, 150), { state: 'success', code: null }, point)
}

const post = (platform: TestPlatform, { owner }: Kept, path: string, body?: object) =>
  platform.api.as(owner).post(path, body && JSON.stringify(body))

async function removed(t: ExecutionContext, platform: TestPlatform, app: Kept): Promise<void> {
  const answer = await platform.api.as(app.owner).delete(`/v2/apps/${app.id}`)
  t.is(answer.status, 200, answer.text)
}

/** Exactly one good snapshot with one segment that can be fetched entirely; and the program continues. */
async function keptOnce(t: ExecutionContext, platform: TestPlatform, app: Kept, point: string) {
  const rows = await platform.db('snapshots').where({ target_id: app.id })
  t.is(rows.length, 1, point)
  t.is(rows[0].state, 'good', point)
  t.like(await platform.db('segments').where({ id: rows[0].segment_id }).first(), { refs: 1, state: 'stored' }, point)
  const [listed] = (await platform.api.as(app.owner).get(app.path)).body.response
  const archive = await fetch(listed.url.replace(/^http:\/\/[^/]+/, platform.api.filesUrl))
  t.is((await archive.arrayBuffer()).byteLength, listed.size, point)
  await platform.serves(app.domain, 'it goes on', 30)
  return listed
}

/** Bodies of the object store, without the halves that a killed put leaves for its next start. */
const bodies = async (platform: TestPlatform) => (await platform.storedBodies()).filter(name => !name.includes('-'))

/** Snapshots that hosts die of, each at its own point: the n-th application lives on the n-th host. */
export async function snapshotsSurvive(t: ExecutionContext, platform: TestPlatform, points: readonly string[]) {
  // Snapshots of earlier cases, which outlive their applications.
  const before = (await bodies(platform)).length
  const first = await hostsAt(platform, points, false)
  const apps: Kept[] = []
  try {
    for (const [n] of points.entries()) apps.push(await written(platform, 'it goes on', `h${n}`))
  } finally {
    await killAll(first)
  }
  const armed = await hostsAt(platform, points, true)
  const answers = apps.map(app => post(platform, app, app.path))
  for (const [n, point] of points.entries()) await diesAt(t, armed[n]!, point)
  const healed = await hostsAt(platform, points, false)
  try {
    for (const [n, point] of points.entries()) {
      await endsWell(t, platform, await answers[n]!, point)
      await keptOnce(t, platform, apps[n]!, point)
    }
    const stored = async () => (await bodies(platform)).length - before
    t.is(await stored(), 2 * points.length, 'the uploads and the snapshots, and nothing twice')
    for (const app of apps) await removed(t, platform, app)
    t.is(await stored(), points.length, 'snapshots outlive their applications, the uploads do not')
  } finally {
    await killAll([...armed, ...healed])
  }
}

interface Restorable extends Kept {
  before: Record<string, string>
  wanted: { snapshotId: string; versionId: string }
}

/** An application with a snapshot, whose files have been damaged since. */
async function restorable(platform: TestPlatform, host: string): Promise<Restorable> {
  const app = await written(platform, 'as it was', host)
  const before = seen(app.files)
  const created = await post(platform, app, app.path)
  if (created.status !== 200) throw new Error(created.text)
  const [listed] = (await platform.api.as(app.owner).get(app.path)).body.response
  await rm(join(app.files, 'data'), { recursive: true })
  await writeFile(join(app.files, 'index.js'), 'damaged')
  return { ...app, before, wanted: { snapshotId: listed.name, versionId: listed.version_id } }
}

/** Every byte is back, by exactly one release, and nothing of the one before is left. */
async function restoredOnce(t: ExecutionContext, platform: TestPlatform, host: string, app: Restorable, point: string) {
  t.deepEqual(seen(app.files), app.before, point)
  await platform.serves(app.domain, 'as it was', 30)
  const deployments = await platform.db('deployments').where({ app_id: app.id, source: 'snapshot' })
  t.deepEqual(
    deployments.map(({ state }) => state),
    ['success'],
    point,
  )
  const alone = async () => (await platform.remains(host)).containers.join() === `berth-${app.id}-2`
  await platform.until(alone, 120, `the old version is retired after ${point}`)
  t.like(await platform.row(app.id), { status: 'running', desired_state: 'running', release: 2 }, point)
}

/** Restores that hosts die of, each at its own point. */
export async function restoresSurvive(t: ExecutionContext, platform: TestPlatform, points: readonly string[]) {
  const first = await hostsAt(platform, points, false)
  const apps: Restorable[] = []
  for (const [n] of points.entries()) apps.push(await restorable(platform, `h${n}`))
  await killAll(first)
  const armed = await hostsAt(platform, points, true)
  const answers = apps.map(app => post(platform, app, `${app.path}/restore`, app.wanted))
  for (const [n, point] of points.entries()) await diesAt(t, armed[n]!, point)
  const healed = await hostsAt(platform, points, false)
  try {
    for (const [n, point] of points.entries()) {
      await endsWell(t, platform, await answers[n]!, point)
      await restoredOnce(t, platform, `h${n}`, apps[n]!, point)
    }
    for (const app of apps) await removed(t, platform, app)
  } finally {
    await killAll([...armed, ...healed])
  }
}

/** A snapshot or a restore that the workflow worker dies of, and its successor ends. One host `a` runs. */
export async function workerSurvives(
  t: ExecutionContext,
  platform: TestPlatform,
  { kind, point }: { kind: 'snapshot' | 'restore'; point: string },
) {
  const first = startEntry('worker', platform.base.settings)
  const bad = kind === 'restore' ? await restorable(platform, 'a') : null
  const app = bad ?? (await written(platform, 'it goes on', 'a'))
  await first.kill('SIGKILL')
  const armed = startEntry('worker', { ...platform.base.settings, CRASH_POINT: point })
  await armed.ready
  const answer = post(platform, app, bad ? `${app.path}/restore` : app.path, bad?.wanted)
  await diesAt(t, armed, point)
  const healed = startEntry('worker', platform.base.settings)
  try {
    await endsWell(t, platform, await answer, point)
    if (bad) await restoredOnce(t, platform, 'a', bad, point)
    else await keptOnce(t, platform, app, point)
    await removed(t, platform, app)
  } finally {
    await killAll([armed, healed])
  }
}
