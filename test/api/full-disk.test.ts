import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../activities/objects/port.ts'
import { blobEndpoints } from '../../api/v1/endpoints.ts'
import { endpoints } from '../../api/v2/endpoints.ts'
import { type Answer, type TestApi, type TestUser, testApi } from '../kit/actors/api.ts'
import { chunkedAs } from '../kit/actors/chunked.ts'
import { sendFile, sent } from '../kit/actors/sent-files.ts'
import { noise } from '../kit/bodies.ts'
import { here } from '../kit/objects/stored-objects.ts'
import { demandRoot } from '../kit/root.ts'
import { zipOf } from '../kit/zips.ts'

const run = promisify(execFile)
const base = await mkdtemp(join(tmpdir(), 'berth-full-disk-'))
const [disk, mount] = [join(base, 'disk'), join(base, 'mount')]
let small: ObjectStore
/** What the API stores in: a small disk of its own. */
const store = Object.fromEntries(
  (['put', 'get', 'lend', 'read', 'head', 'delete', 'open'] as const).map(name => [
    name,
    (...args: never[]) => (small[name] as (...args: never[]) => unknown)(...args),
  ]),
) as unknown as ObjectStore
const api = testApi({ services: () => ({ store }) })

test.before(async () => {
  demandRoot()
  await mkdir(mount)
  await writeFile(disk, '')
  await truncate(disk, 32 * 1024 ** 2)
  await run('mkfs.ext4', ['-q', disk])
  await run('mount', ['-o', 'loop', disk, mount])
  small = await filesystemStore(mount)
})
test.after.always(async () => {
  await run('umount', [mount])
  await rm(base, { recursive: true, force: true })
})

const megabytes = (n: number): Uint8Array<ArrayBuffer> => new Uint8Array(noise(n * 1_000_000))
const program = { 'berth.app': 'MAIN=index.js\nMEMORY=256\nVERSION=recommended\nDISPLAY_NAME=shop', 'index.js': '' }

/** Each way in which bytes arrive that go into the object store. */
function uploadsOf(near: TestApi, { ana, appId, upload }: { ana: TestUser; appId: string; upload: string }) {
  const [as, blob] = [near.as(ana), near.blobAs(ana)]
  const zip = () => {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(zipOf({ ...program, 'data.bin': noise(1_000_000) }))]), 'app.zip')
    return form
  }
  const object = (query: Record<string, string>) => () => sendFile(near, ana, query, { bytes: noise(1_000_000) })
  return {
    creation: () => as.post('/v2/apps', zip()),
    commit: () => as.post(`/v2/apps/${appId}/commit`, zip()),
    'private object': object({ private: 'true', name: 'a' }),
    'public object': object({ name: 'b' }),
    part: () => chunkedAs(blob).part(upload, 1, megabytes(6)),
  } satisfies Record<string, () => Promise<Answer>>
}

const refusals: Record<keyof ReturnType<typeof uploadsOf>, [status: number, code: string]> = {
  creation: [400, 'FAILED_UPLOAD_DATA'],
  commit: [400, 'STORAGE_UPLOAD_FAILED'],
  'private object': [503, 'PRIVATE_STORAGE_UNAVAILABLE'],
  'public object': [503, 'PUBLIC_STORAGE_UNAVAILABLE'],
  part: [503, 'PUBLIC_STORAGE_UNAVAILABLE'],
}

/** What an account has, and what is drawn or stored for nobody. */
async function traces({ db }: TestApi, { id }: TestUser): Promise<unknown> {
  const count = async (table: string, where: object = {}) => Number((await db(table).where(where).count())[0]!.count)
  const files = await readdir(mount, { recursive: true, withFileTypes: true })
  return {
    files: files.filter(file => file.isFile()).map(file => file.name),
    apps: await count('apps', { owner_id: id }),
    operations: await count('operations'),
    deployments: await count('deployments'),
    objects: await count('objects', { owner_id: id }),
    parts: await count('upload_parts'),
    usage: await db('blob_usage').where({ owner_id: id }).first(),
  }
}

test('a full disk refuses each upload with its code and leaves nothing; all else is answered, and uploads work once there is room', async t => {
  t.timeout(120_000)
  const near = api()
  const ana = await near.makeUser()
  const [as, blob] = [near.as(ana), near.blobAs(ana)]
  const [app, other] = [await near.makeApp(ana), await near.makeApp(ana)]
  const kept = noise(200_000)
  const [open, hidden, spare] = [
    await sent(near, ana, { name: 'open' }, { bytes: kept }),
    await sent(near, ana, { name: 'hidden', private: 'true' }, { bytes: kept }),
    await sent(near, ana, { name: 'spare' }, { bytes: kept }),
  ]
  const chunked = chunkedAs(blob)
  const upload: string = (await chunked.init()).body.response.upload
  const idle: string = (await chunked.init()).body.response.upload
  const share = (await blob.post('/v1/shares', JSON.stringify({ object: hidden.id }))).body.response
  const uploads = uploadsOf(near, { ana, appId: app.id, upload })

  /** Status of every reading endpoint, asked about what is there; a live stream has no end. */
  const reading = async () => {
    const asked = [...endpoints, ...blobEndpoints].filter(
      ({ method, stream, changes }) => method === 'GET' && !stream && !changes,
    )
    t.true(asked.length > 30)
    const answers = asked.map(async ({ path, auth }) => {
      const url = path.replace('{appId}', app.id).replaceAll(/\{\w+\}/g, ana.id)
      const query = new URLSearchParams({ object: hidden.id, upload: idle, redirect: 'false' })
      const actor = (path.startsWith('/v1/') ? near.blobAs : near.as)(auth === 'session' ? ana.session : ana.key)
      const wantsQuery = ['/v1/objects/info', '/v1/objects/download', '/v1/objects/chunked'].includes(path)
      return `${path} ${(await actor.get(wantsQuery ? `${url}?${query}` : url)).status}`
    })
    return Promise.all(answers)
  }
  const usual = await reading()
  t.true(usual.filter(answer => answer.endsWith(' 200')).length > 20, usual.join('\n'))

  await run('dd', ['if=/dev/zero', `of=${join(mount, 'ballast')}`, 'bs=64k']).catch(() => {})
  const before = await traces(near, ana)
  for (const [name, ask] of Object.entries(uploads)) {
    const { status, body } = await ask()
    t.deepEqual([status, body.code], refusals[name as keyof typeof refusals], name)
  }
  t.deepEqual(await traces(near, ana), before)

  t.deepEqual(await reading(), usual)
  const read = async (url: string) => {
    const answer = await fetch(here(near, url))
    t.true(Buffer.from(await answer.arrayBuffer()).equals(kept), url)
  }
  await read(`${near.publicUrl}/${open.id}`)
  await read(share.url)
  await read((await blob.get(`/v1/objects/download?object=${hidden.id}&redirect=false`)).body.response.url)
  const changes: Record<string, Promise<Answer>> = {
    start: as.post(`/v2/apps/${app.id}/start`),
    deletion: as.delete(`/v2/apps/${other.id}`),
    variables: as.post(`/v2/apps/${app.id}/envs`, JSON.stringify({ envs: { A: '1' } })),
    webhook: as.post(`/v2/apps/${app.id}/deploy/webhook`, JSON.stringify({ access_token: `ghp_${'a'.repeat(36)}` })),
    'small object': sendFile(near, ana, { name: 'small' }, { bytes: noise(16_000) }),
    copy: blob.post('/v1/objects/copy', JSON.stringify({ source: open.id, destination: { name: 'copy' } })),
    'an upload that begins': chunked.init(),
    'an upload that ends': chunked.abort(idle),
    'deletion of an object': blob.request('DELETE', '/v1/objects', { body: JSON.stringify({ object: spare.id }) }),
    share: blob.post('/v1/shares', JSON.stringify({ object: hidden.id })),
  }
  for (const [name, change] of Object.entries(changes)) {
    const { status, text } = await change
    t.true([200, 201].includes(status), `${name}: ${text}`)
  }

  await rm(join(mount, 'ballast'))
  for (const [name, ask] of Object.entries(uploads)) {
    const { status, text } = await ask()
    t.is(status, 200, `${name}: ${text}`)
  }
})
