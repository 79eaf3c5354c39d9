import { copyFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { segmentPath } from '../../activities/objects/meter.ts'
import { sweepSnapshots } from '../../db/snapshots/snapshot-retention.ts'
import type { TestUser } from '../kit/actors/api.ts'
import { type Contents, give, lay, seen } from '../kit/folders.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { configOf, nodeProgram, type Program, slowProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform()

/** A running application, with files of its own in addition to those of its program. */
async function written(program: Program, contents: Contents = {}) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, program)
  const files = join(platform.hosts.get('a')!.parts.volumes.path(app.id), 'files')
  lay(files, contents)
  give(files, (await platform.row(app.id))!.uid)
  const as = platform.api.as(ana)
  const path = `/v2/apps/${app.id}/snapshots`
  const restore = ({ name: snapshotId, version_id: versionId }: { name: string; version_id: string }) =>
    as.post(`${path}/restore`, JSON.stringify({ snapshotId, versionId }))
  return { platform, ana, app, files, as, path, restore }
}

type Written = Awaited<ReturnType<typeof written>>

/** A good snapshot, as the listing has it. */
async function snapshot({ as, path }: Pick<Written, 'as' | 'path'>) {
  const created = await as.post(path)
  if (created.status !== 200) throw new Error(created.text)
  const [listed] = (await as.get(path)).body.response
  return { ...listed, url: created.body.response.url }
}

/** Uploads files into an application and waits for their deployment. */
async function commit({ platform, as, app }: Written, program: Program, values: Record<string, string | null>) {
  const lines = Object.entries(configOf(program, values)).map(([name, value]) => `${name}=${value}`)
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf({ 'berth.app': lines.join('\n'), ...program.files }))]), 'app.zip')
  const answer = await as.post(`/v2/apps/${app.id}/commit`, form)
  return platform.ended(answer.headers.get('x-operation-id') as string)
}

const contents: Contents = {
  'data/an empty file': '',
  'data/größe–名前.txt': 'unicode',
  'data/empty folder': null,
  'data/inside': { link: '../index.js' },
  'data/nowhere': { link: '/etc/passwd' },
  'data/script.sh': { text: '#!/bin/sh\n', mode: 0o755 },
  'data/closed': { text: 'secret', mode: 0 },
  'data/large.bin': 'x'.repeat(3_000_000),
}

test.serial('a restore brings back every byte of files and configuration, and removes later files', async t => {
  t.timeout(120_000)
  const it = await written(nodeProgram('the first'), contents)
  const { platform, app, files, as, path, restore } = it
  const before = seen(files)
  const wanted = await snapshot(it)
  t.like(wanted, { name: `${app.id}_javascript_manual`, runtime: 'javascript', origin: 'manual' })

  const archive = await fetch(wanted.url.replace(/^http:\/\/[^/]+/, platform.api.filesUrl))
  t.is(Number(archive.headers.get('content-length')), wanted.size)
  t.is((await archive.arrayBuffer()).byteLength, wanted.size)

  const ended = await commit(it, nodeProgram('the second'), {
    DISPLAY_NAME: 'renamed',
    MEMORY: '768',
    SUBDOMAIN: null,
  })
  t.like(ended, { state: 'success', code: null })
  await platform.serves(app.domain, 'the second')
  await rm(join(files, 'data/script.sh'))
  await rm(join(files, 'data/empty folder'), { recursive: true })
  await writeFile(join(files, 'data/an empty file'), 'filled')
  await writeFile(join(files, 'new.txt'), 'new')
  t.notDeepEqual(seen(files), before)

  const answer = await restore(wanted)
  t.is(answer.text, '{"status":"success"}')
  t.deepEqual(seen(files), before)
  t.is((await platform.page(app.domain)).body, 'the first')
  t.like(await platform.row(app.id), {
    name: 'test',
    ram_mb: 512,
    release: 3,
    status: 'running',
    desired_state: 'running',
  })
  t.like((await as.get(`${path}/restore`)).body.response, { state: 'success' })
  const alone = async () => (await platform.remains()).containers.join() === `berth-${app.id}-3`
  await platform.until(alone, 60, 'the version before is retired')
  const events = (await as.get(`/v2/apps/${app.id}/deployments`)).body.response
  t.is(events.length, 2, 'a restore is no deployment of the list')

  const bodies = (await platform.storedBodies()).length
  const again = await snapshot(it)
  t.not(again.version_id, wanted.version_id)
  t.is((await platform.storedBodies()).length, bodies, 'the same files are kept once')

  t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  t.is((await platform.storedBodies()).length, 1, 'only the body of the snapshots stays')
  const listed = (await as.get('/v2/users/snapshots')).body.response
  t.deepEqual(
    listed.map((row: { version_id: string }) => row.version_id).sort(),
    [wanted, again].map(row => row.version_id).sort(),
  )
  await platform
    .db('snapshots')
    .where({ target_id: app.id })
    .update({ created_at: new Date(Date.now() - 31 * 86_400_000) })
  t.is(await sweepSnapshots(platform.db), 2)
  t.deepEqual(await platform.storedBodies(), [])
  const deleted = await fetch(again.url.replace(/^http:\/\/[^/]+/, platform.api.filesUrl))
  t.deepEqual([deleted.status, await deleted.text()], [404, 'Not found\n'])
})

test.serial(
  'an application that was stopped is restored and stays stopped; deleted, its snapshot is uploaded as a new one',
  async t => {
    t.timeout(90_000)
    const it = await written(nodeProgram('the stopped one'))
    const { platform, app, files, as, restore } = it
    const before = seen(files)
    const wanted = await snapshot(it)
    await writeFile(join(files, 'index.js'), 'broken')
    t.is((await as.post(`/v2/apps/${app.id}/stop`)).status, 200)
    t.is((await restore(wanted)).status, 200)
    t.deepEqual(seen(files), before)
    t.like(await platform.row(app.id), { status: 'exited', desired_state: 'stopped', release: 2 })
    t.is((await as.get(`/v2/apps/${app.id}/status?rawData=true`)).body.response.running, false)
    t.not((await snapshot(it)).version_id, wanted.version_id, 'what is stopped can be copied too')
    t.is((await as.post(`/v2/apps/${app.id}/start`)).status, 200)
    await platform.serves(app.domain, 'the stopped one')
    t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-2`])
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)

    const kept = await fetch(wanted.url.replace(/^http:\/\/[^/]+/, platform.api.filesUrl))
    const form = new FormData()
    form.append('file', await kept.blob(), 'kept.zip')
    const created = await as.post('/v2/apps', form)
    t.is(created.status, 200, created.text)
    t.like(await platform.ended(created.headers.get('x-operation-id') as string), { state: 'success', code: null })
    const { id, domain } = created.body.response
    await platform.serves(domain, 'the stopped one')
    const { '.berth-snapshot.json': _, ...brought } = seen(
      join(platform.hosts.get('a')!.parts.volumes.path(id), 'files'),
    )
    t.deepEqual(brought, before)
    t.is((await as.delete(`/v2/apps/${id}`)).status, 200)
  },
)

async function bodyOf({ platform }: Written, version: string): Promise<string> {
  const row = await platform.db('snapshots').where({ id: version }).first()
  return join(platform.base.folder, 'objects', segmentPath(row.segment_id))
}

test.serial('a snapshot that does not read back as it was written changes nothing', async t => {
  t.timeout(90_000)
  const it = await written(nodeProgram('it serves on'), { 'data/a.txt': 'a'.repeat(100_000) })
  const { platform, app, files, as, path, restore } = it
  const wanted = await snapshot(it)
  await writeFile(join(files, 'later.txt'), 'written since')
  const before = seen(files)
  await truncate(await bodyOf(it, wanted.version_id), Math.floor(wanted.size / 2))
  const answer = await restore(wanted)
  t.deepEqual([answer.status, answer.body.code], [404, 'SNAPSHOT_RESTORE_FAILED'])
  t.like((await as.get(`${path}/restore`)).body.response, { state: 'error', code: 'SNAPSHOT_CORRUPT' })
  t.deepEqual(seen(files), before)
  t.is((await platform.page(app.domain)).body, 'it serves on')
  t.like(await platform.row(app.id), { status: 'running', release: 1 })
  t.deepEqual((await platform.remains()).containers, [`berth-${app.id}-1`])

  const other = await snapshot(it)
  await rm(join(files, 'later.txt'))
  const equal = await snapshot(it)
  t.is(await bodyOf(it, equal.version_id), await bodyOf(it, wanted.version_id), 'one body, and not the damaged one')
  await copyFile(await bodyOf(it, other.version_id), await bodyOf(it, wanted.version_id))
  t.is((await restore(wanted)).status, 404, 'whole, but not what was recorded')
  t.like((await as.get(`${path}/restore`)).body.response, { state: 'error', code: 'SNAPSHOT_CORRUPT' })
  await rm(await bodyOf(it, wanted.version_id))
  t.is((await restore(wanted)).status, 404, 'missing')
  t.like((await as.get(`${path}/restore`)).body.response, { state: 'error', code: 'SNAPSHOT_CORRUPT' })
  t.is((await restore(other)).status, 200)
  t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
})

test.serial(
  'a version that does not stay up is taken back, with the files and configuration that were there',
  async t => {
    t.timeout(120_000)
    const broken = { main: 'index.js', files: { 'index.js': 'process.exit(3)\n' } }
    const it = await written(nodeProgram('healthy'))
    const { platform, app, files, as, path, restore } = it
    await writeFile(join(files, 'index.js'), broken.files['index.js'])
    const wanted = await snapshot(it)
    await commit(it, nodeProgram('healthy again'), { MEMORY: '768', SUBDOMAIN: null })
    const settled = async () => '.replaced/2/index.js' in seen(files)
    await platform.until(settled, 30, 'what the application wrote is retained alongside the commit')
    const before = seen(files)
    t.is((await restore(wanted)).status, 404)
    const reported = (await as.get(`${path}/restore`)).body.response
    t.like(reported, { state: 'error', code: 'SNAPSHOT_RESTORE_FAILED' })
    t.regex(reported.message, /^HEALTH_CHECK_FAILED: /)
    t.deepEqual(seen(files), before)
    t.is((await platform.page(app.domain)).body, 'healthy again')
    t.like(await platform.row(app.id), { status: 'running', release: 2, ram_mb: 768 })
    t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  },
)

test.serial('during a restore the application answers, and can neither be deleted nor copied', async t => {
  t.timeout(120_000)
  const it = await written(slowProgram('all the time', 4))
  const { platform, app, as, path, restore } = it
  const wanted = await snapshot(it)
  let going = true
  const failures: string[] = []
  const load = (async () => {
    while (going) {
      const page = await platform.page(app.domain).catch(error => ({ status: 0, body: String(error) }))
      if (page.body !== 'all the time') failures.push(`${page.status} ${page.body}`)
      await sleep(20)
    }
  })()
  const restored = restore(wanted)
  const state = async () => (await as.get(`${path}/restore`)).body.response
  await platform.until(async () => (await state()).state === 'running', 20, 'the restore runs')
  const refused = [await as.delete(`/v2/apps/${app.id}`), await as.post(path), await restore(wanted)]
  for (const answer of refused) t.deepEqual([answer.status, answer.body.code], [403, 'RESTORE_IN_PROGRESS'])
  t.is((await restored).status, 200)
  going = false
  await load
  t.deepEqual(failures, [])
  t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
  await sweepSnapshots(platform.db, { goodSeconds: 0, failedSeconds: 0 })
  t.deepEqual(await platform.storedBodies(), [])
})

test.serial('only the owner may copy, list or restore', async t => {
  t.timeout(60_000)
  const it = await written(nodeProgram('mine'))
  const wanted = await snapshot(it)
  const bob: TestUser = await it.platform.api.makeUser()
  const { get, post } = it.platform.api.as(bob)
  const body = JSON.stringify({ snapshotId: wanted.name, versionId: wanted.version_id })
  const answers = [
    await get(it.path),
    await post(it.path),
    await post(`${it.path}/restore`, body),
    await get(`${it.path}/restore`),
  ]
  t.deepEqual(
    answers.map(answer => answer.body.code),
    Array(4).fill('APP_NOT_FOUND'),
  )
  t.is((await it.as.delete(`/v2/apps/${it.app.id}`)).status, 200)
})
