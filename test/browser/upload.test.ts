import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buffer } from 'node:stream/consumers'
import test, { type ExecutionContext } from 'ava'
import { manifestOf } from '../../db/objects/objects.ts'
import { type TestUser, testApi } from '../kit/actors/api.ts'
import { testBrowser, type Visitor } from '../kit/actors/browser.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { checkout } from '../kit/command.ts'

const api = testApi()
const browser = testBrowser()
const megabyte = 1024 * 1024

/** The example as a person would run it, with a key that may do nothing else. Resolves to its address. */
async function startExample(t: ExecutionContext, ana: TestUser): Promise<string> {
  const { key } = await api().makeKey(ana, { scopes: ['blob:write'] })
  const env = { ...process.env, PORT: '0', BLOB_URL: api().blobUrl, BLOB_API_KEY: key }
  const child = spawn(process.execPath, [join(checkout, 'examples/browser-upload/server.mjs')], { env })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  for await (const line of createInterface(child.stdout))
    if (line.startsWith('Listening on ')) return `http://127.0.0.1:${line.slice(13)}/`
  throw new Error('The example ended before it listened.')
}

async function fileOf(t: ExecutionContext, name: string, bytes: Uint8Array): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-upload-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, name), bytes)
  return join(folder, name)
}

async function choose({ page }: Visitor, path: string): Promise<void> {
  const [chooser] = await Promise.all([page.waitForFileChooser(), page.click('label')])
  await chooser.accept([path])
}

const objectsOf = (ana: TestUser) => api().db('objects').where({ owner_id: ana.id })

async function contentOf(generation: string): Promise<Buffer> {
  const { db, store } = api()
  const pieces: Buffer[] = []
  for (const { segmentId } of await manifestOf(db, generation)) pieces.push(await buffer(await store.get(segmentId)))
  return Buffer.concat(pieces)
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Keeps every value that the bar is given. */
const watchBar = `(() => {
  const { set } = Object.getOwnPropertyDescriptor(HTMLProgressElement.prototype, 'value')
  window.seen = []
  Object.defineProperty(document.getElementById('bar'), 'value', {
    set(value) { window.seen.push(value); set.call(this, value) },
  })
})()`

test.serial('a small file goes up in one request, and the page says where it is', async t => {
  const ana = await api().makeUser()
  const visitor = await browser().visit(await startExample(t, ana))
  const bytes = randomBytes(300_000)
  await choose(visitor, await fileOf(t, 'photo of me.png', bytes))
  await visitor.reads('Done: ')
  await visitor.reads('100 %')
  const [object, ...others] = await objectsOf(ana)
  t.is(others.length, 0)
  t.like(object, {
    bucket: 'public',
    content_type: 'image/png',
    sha256: sha256(bytes),
    original_name: 'photo of me.png',
  })
  t.regex(object.key, /^visitors\/photo-of-me_[a-z2-7]{16}\.png$/)
  const link = await visitor.page.evaluate(`document.querySelector('#said a').href`)
  t.is(link, `${api().services.config.urls.public}/pub/${ana.id}/${object.key}`)
  t.deepEqual(visitor.complaints, [])
})

test.serial(
  'a large file goes up in parts, of which a failed one is sent again, and the bar tells how far it is',
  async t => {
    const { makeUser, store, db } = api()
    const ana = await makeUser()
    const visitor = await browser().visit(await startExample(t, ana))
    await visitor.page.evaluate(watchBar)
    const bytes = randomBytes(17 * megabyte)
    const { put } = store
    store.put = async () => {
      store.put = put
      throw new Error('the store is out')
    }
    await choose(visitor, await fileOf(t, 'holiday.zip', bytes))
    await visitor.reads('Done: ')
    const [object] = await objectsOf(ana)
    t.regex(object.key, /^visitors\/holiday_[a-z2-7]{16}\.zip$/)
    t.is(sha256(await contentOf(object.generation)), sha256(bytes))
    t.is((await db('object_parts').where({ generation: object.generation })).length, 4)
    const seen = (await visitor.page.evaluate('window.seen')) as number[]
    t.is(seen[0], 0)
    t.is(seen.at(-1), 1)
    t.true(seen.some(share => share > 0 && share < 1))
    t.true(seen.every(share => share >= 0 && share <= 1))
    t.deepEqual(
      visitor.complaints.filter(text => !text.includes('status of 503')),
      [],
    )
  },
)

test.serial(
  'a file that the token does not take is refused in the platform’s words, and the next one goes up',
  async t => {
    const ana = await api().makeUser()
    const visitor = await browser().visit(await startExample(t, ana))
    await choose(visitor, await fileOf(t, 'drawing.svg', Buffer.from('<svg/>')))
    await visitor.reads('does not allow this file type')
    t.deepEqual(await objectsOf(ana), [])
    await choose(visitor, await fileOf(t, 'note.txt', Buffer.from('a note')))
    await visitor.reads('Done: ')
    t.is((await objectsOf(ana)).length, 1)
  },
)

test.serial('a cancelled upload leaves nothing', async t => {
  const { makeUser, db, store } = api()
  const ana = await makeUser()
  const visitor = await browser().visit(await startExample(t, ana))
  const files = await store.files()
  await visitor.page.emulateNetworkConditions({ upload: 50_000, download: 1e9, latency: 0 })
  await choose(visitor, await fileOf(t, 'film.mp4', randomBytes(17 * megabyte)))
  await comesTrue(async () => (await db('blob_leases')).length > 0)
  await visitor.page.click('#cancel')
  await visitor.reads('The upload was cancelled.')
  t.like(await db('uploads').where({ owner_id: ana.id }).first(), { state: 'aborted', why: 'asked' })
  await comesTrue(async () => (await db('blob_leases')).length === 0)
  t.is(await store.files(), files)
  t.deepEqual(await objectsOf(ana), [])
})
