import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { labels } from '../../../../activities/containers/port.ts'
import { templateRole } from '../../../../activities/databases/templates/templates.ts'
import { MiB } from '../../../../lib/bytes.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { demandRoot } from '../../../kit/root.ts'
import { customerUid, image, newFolder, templateHost } from './template-kit.ts'

demandRoot()

const text = (data: string): string => readFileSync(join(data, 'folder', 'text'), 'utf8')
const archivesIn = (cache: string): string[] => readdirSync(cache).filter(name => name.endsWith('.tar'))
const onlyArchive = (cache: string): string => join(cache, archivesIn(cache)[0]!)

function assertPlaced(t: ExecutionContext, { data, placed }: { data: string; placed: boolean }, content: string): void {
  t.true(placed)
  t.is(text(data), content)
  t.deepEqual(readdirSync(data), ['folder'], 'and nothing else')
}

test('a data folder is made once and copied for every database after', async t => {
  const host = templateHost()
  const copies = [await host.place(), await host.place(), await host.place()]
  for (const copy of copies) assertPlaced(t, copy, 'made 1')
  t.is(host.engine.jobs.length, 1)
  t.is(host.identified.length, 3, 'each gets an identity')
  for (const { data } of copies) t.false(existsSync(join(data, 'folder', 'who')), 'and is without that of the first')
})

test('a copy belongs to its database alone: its user, its own bytes, holes as holes', async t => {
  const host = templateHost()
  const [one, other] = [await host.place(), await host.place()]
  for (const path of ['folder', 'folder/text', 'folder/deep', 'folder/deep/bytes']) {
    const { uid, gid, nlink, ino } = statSync(join(one.data, path))
    t.deepEqual([uid, gid], [customerUid, customerUid])
    if (!path.endsWith('deep') && path !== 'folder') t.is(nlink, 1, 'no hard link')
    t.not(ino, statSync(join(other.data, path)).ino)
  }
  t.is(statSync(join(one.data, 'folder/text')).mode & 0o777, 0o600)
  const hole = statSync(join(one.data, 'folder/hole'))
  t.is(hole.size, 8 * MiB)
  t.true(hole.blocks * 512 < MiB)
  writeFileSync(join(one.data, 'folder/text'), 'changed')
  t.is(text(other.data), 'made 1')
  assertPlaced(t, await host.place(), 'made 1')
})

test('concurrent first databases wait for one data folder', async t => {
  const host = templateHost()
  let open = () => {}
  const opened = new Promise<void>(done => {
    open = done
  })
  host.engine.before = () => opened
  const copies = [1, 2, 3, 4].map(() => host.place())
  open()
  for (const copy of await Promise.all(copies)) assertPlaced(t, copy, 'made 1')
  t.is(host.engine.jobs.length, 1)
})

test('a first database that is cancelled ends immediately, and the one that waits makes the data folder', async t => {
  const host = templateHost()
  const ending = new AbortController()
  let jobs = 0
  host.engine.before = async () => {
    if (++jobs > 1) return
    ending.abort(new Error('cancelled'))
    throw new Error('the job was cancelled')
  }
  const first = t.throwsAsync(host.place(ending.signal), { message: 'cancelled' })
  assertPlaced(t, await host.place(), 'made 2')
  await first
})

for (const [what, damage] of [
  ['a changed byte', (bytes: Buffer) => bytes.fill(1, bytes.length / 2, bytes.length / 2 + 1)],
  ['a missing end', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
  ['no content', () => Buffer.alloc(0)],
] as const)
  test(`an archive with ${what} is never used, and made anew`, async t => {
    const host = templateHost()
    await host.place()
    const path = onlyArchive(host.cache)
    writeFileSync(path, damage(readFileSync(path)))
    assertPlaced(t, await host.place(), 'made 2')
    t.is(host.engine.jobs.length, 2)
    assertPlaced(t, await host.place(), 'made 2')
    t.is(archivesIn(host.cache).length, 1)
  })

test('two hosts of a machine share archives', async t => {
  const one = templateHost()
  await one.place()
  const other = templateHost({ cache: one.cache })
  assertPlaced(t, await other.place(), 'made 1')
  t.is(other.engine.jobs.length, 0)
  t.not(other.drafts, one.drafts)
})

test('another image, or anything else that the data folder depends on, has an archive of its own', async t => {
  const host = templateHost()
  await host.place()
  host.engine.ids.set(image.image, `sha256:${'a'.repeat(64)}`)
  assertPlaced(t, await host.place(), 'made 2')
  const changed = templateHost({ cache: host.cache, settings: { 'engine.conf': 'x = 2' } })
  assertPlaced(t, await changed.place(), 'made 1')
  t.is(archivesIn(host.cache).length, 3)
  host.adapter.initialise = () => [['make', 'otherwise']]
  await host.place()
  t.is(archivesIn(host.cache).length, 4)
  t.is(host.engine.jobs.at(-1)!.image, `sha256:${'a'.repeat(64)}`, 'made with the image that its key names')
})

test('an archive is made without secrets, a network, or the label of a database', async t => {
  const host = templateHost()
  await host.place()
  t.deepEqual(
    host.secrets,
    host.secrets.map(() => ({ password: '', platformPassword: '' })),
  )
  const [job] = host.engine.jobs
  t.like(job, { network: 'none', publish: null, labels: { [labels.host]: 'h1', [labels.role]: templateRole } })
  t.is(job!.labels[labels.database], undefined, 'the watch of databases would remove it')
  t.is(statSync(host.cache).mode & 0o777, 0o755, 'a folder that exists stays as it is')
  t.is(statSync(onlyArchive(host.cache)).mode & 0o077, 0)
})

test('a copy that cannot be made or given an identity leaves the folder empty, and the failure is logged', async t => {
  const host = templateHost()
  host.adapter.template.individualize = async () => {
    throw new Error('another form')
  }
  const copy = await host.place()
  t.false(copy.placed)
  t.deepEqual(readdirSync(copy.data), [])
  const failing = templateHost()
  failing.engine.before = async () => {
    throw new Error('no such program')
  }
  const none = await failing.place()
  t.false(none.placed)
  t.deepEqual(readdirSync(none.data), [])
  t.deepEqual(readdirSync(failing.cache), [])
  t.deepEqual([host.lines.length, failing.lines.length], [1, 1])
})

test('a data folder over the limit has no archive', async t => {
  const host = templateHost({ limits: { maxMb: 1 } })
  t.false((await host.place()).placed)
  t.deepEqual(readdirSync(host.cache), [])
  t.true((await templateHost({ limits: { maxMb: 2 } }).place()).placed)
})

test('an engine without a template, or a missing image, has no archive', async t => {
  const host = templateHost()
  host.engine.ids.set(image.image, null)
  t.false((await host.place()).placed)
  host.engine.ids.delete(image.image)
  Object.assign(host.adapter, { template: undefined })
  t.false((await host.place()).placed)
  t.is(host.engine.jobs.length, 0)
})

test('an archive goes with its image, and the least recently used go when there are too many', async t => {
  const host = templateHost({ limits: { max: 2 } })
  const ids = ['a', 'b', 'c', 'd'].map(letter => letter.repeat(64))
  for (const [age, id] of ids.entries()) {
    host.engine.ids.set(image.image, `sha256:${id}`)
    await host.templates.prepare(image, new AbortController().signal)
    const [name] = archivesIn(host.cache).filter(one => one.startsWith(id))
    const usedAt = new Date(Date.now() - (10 - age) * 60_000)
    utimesSync(join(host.cache, name!), usedAt, usedAt)
  }
  const left = () =>
    archivesIn(host.cache)
      .map(name => name[0])
      .sort()
      .join('')
  t.is(left(), 'abcd', 'nothing goes by itself')
  host.engine.ids.set(ids[3]!, null)
  host.engine.ids.set(image.image, `sha256:${ids[0]}`)
  await host.place()
  await host.templates.sweep()
  t.is(left(), 'ac', 'the first was used last')
})

test('files of killed processes are removed, and those that another host is making are not', async t => {
  const cache = newFolder()
  const old = new Date(Date.now() - 3_600_000)
  for (const name of ['1.draft', '2.draft', 'notes.txt']) writeFileSync(join(cache, name), '')
  utimesSync(join(cache, '1.draft'), old, old)
  const killed = templateHost({ cache })
  killed.engine.before = () => new Promise(() => {})
  const ending = new AbortController()
  const cancelled = killed.place(ending.signal)
  await comesTrue(() => killed.engine.jobs.length > 0)
  const [job] = killed.engine.jobs
  await killed.engine.create(job!)
  await killed.engine.create({ ...job!, name: 'berth-template-of-another-installation' })
  mkdirSync(join(killed.drafts, 'left'), { recursive: true })
  ending.abort(new Error('killed'))
  await t.throwsAsync(cancelled)
  const restarted = templateHost({ cache, drafts: killed.drafts, engine: killed.engine })
  killed.engine.before = async () => {}
  await restarted.templates.sweep()
  t.deepEqual([...killed.engine.containers.keys()], ['berth-template-of-another-installation'])
  t.false(existsSync(killed.drafts))
  t.deepEqual(readdirSync(cache).sort(), ['2.draft', 'notes.txt'])
  assertPlaced(t, await restarted.place(), 'made 2')
})
