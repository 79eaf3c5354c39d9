import { createHash } from 'node:crypto'
import { chmod, mkdir, readFile, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import test, { type ExecutionContext } from 'ava'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import { importLegacy } from '../../activities/objects/legacy-import.ts'
import { segmentPath } from '../../activities/objects/meter.ts'
import { factsOf } from '../../api/uploads/small-bodies.ts'
import { blobCommand } from '../../cli/blob.ts'
import { storedSegments } from '../../cli/ops/stored-segments.ts'
import { opsCommand } from '../../cli/ops.ts'
import { checkReceiptLines, openReceipt } from '../../db/objects/blob-receipts.ts'
import { removeExpiredObjects } from '../../db/objects/object-ends.ts'
import { putObject } from '../../db/objects/object-puts.ts'
import { findObject, manifestOf, type ObjectRow } from '../../db/objects/objects.ts'
import { newId } from '../../policy/ids.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { ownFolder } from '../kit/folders.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

/** An installation with an account, a folder to import from, and its commands. */
async function setup(t: ExecutionContext) {
  const { db, url } = await database
  const folder = ownFolder(t)
  const objects = join(folder, 'data', 'objects')
  const ana = await rows(db).user()
  const from = join(folder, 'from')
  const write = async (path: string, text: string, mtime?: Date) => {
    await mkdir(dirname(join(from, path)), { recursive: true })
    await writeFile(join(from, path), text)
    if (mtime) await utimes(join(from, path), mtime, mtime)
  }
  await mkdir(from)
  await mkdir(join(folder, 'data'))
  const settings = { BERTH_DATA: join(folder, 'data'), DATABASE_URL: url }
  const berth = async (...args: string[]) => {
    const result = await operatorHere([blobCommand, opsCommand], settings, ...args)
    const { exitCode } = process
    process.exitCode = 0
    return { ...result, exitCode }
  }
  const importAll = async () => {
    const { stdout, stderr } = await berth('blob', 'import', from, '--user', ana.id, '--json')
    if (!stdout) throw new Error(stderr)
    return JSON.parse(stdout)
  }
  const find = (key: string) => findObject(db, { ownerId: ana.id, bucket: 'legacy', key })
  const fileOf = async (object: ObjectRow | undefined) => {
    const [part] = await manifestOf(db, object!.generation)
    return { id: part!.segmentId, path: join(objects, segmentPath(part!.segmentId)) }
  }
  return { db, ana, from, objects, write, berth, importAll, find, fileOf }
}

test.serial('a path that is no folder is refused before anything is read or recorded', async t => {
  const { db, ana, from, write, berth } = await setup(t)
  await write('file.txt', 'one')
  for (const path of [join(from, 'missing'), join(from, 'file.txt')]) {
    const { stderr } = await berth('blob', 'import', path, '--user', ana.id)
    t.true(stderr.includes(`There is no folder ${path}.`), stderr)
  }
  t.deepEqual(await db('audit').where({ action: 'blob.import' }), [])
})

test.serial('files are imported as legacy objects under their paths, with their bytes, type and age', async t => {
  const { db, ana, write, importAll, find, fileOf } = await setup(t)
  const old = new Date('2024-05-06T07:08:09Z')
  await write('a.png', 'picture', old)
  await write('docs/2024/very long name, with spaces.txt', 'text')
  await write('empty', '')
  t.deepEqual(await importAll(), { imported: 3, already: 0, bytes: 11, skipped: [] })
  const picture = await find('a.png')
  t.like(picture, { content_type: 'image/png', size: 7, created_at: old, expires_at: null })
  t.is(picture!.sha256, createHash('sha256').update('picture').digest('hex'))
  t.is(await readFile((await fileOf(picture)).path, 'utf8'), 'picture')
  t.is((await find('empty'))?.size, 0)
  t.truthy(await find('docs/2024/very long name, with spaces.txt'))
  t.is((await db('audit').where({ account_id: ana.id, action: 'blob.import' })).length, 1)
})

test.serial('an interrupted import continues, and changes no existing object', async t => {
  const { db, from, write, berth, importAll, find, ana } = await setup(t)
  await write('a.txt', 'one')
  await write('b.txt', 'two')
  await importAll()
  const before = await find('a.txt')
  await write('c.txt', 'three')
  t.deepEqual(await importAll(), { imported: 1, already: 2, bytes: 5, skipped: [] })
  t.deepEqual(await find('a.txt'), before)
  await write('b.txt', 'another')
  await symlink('/etc/passwd', join(from, 'link'))
  const { exitCode, stdout } = await berth('blob', 'import', from, '--user', ana.id, '--json')
  const { skipped, ...rest } = JSON.parse(stdout)
  t.deepEqual(rest, { imported: 0, already: 2, bytes: 0 })
  t.deepEqual(skipped.map(({ path }: { path: string }) => path).sort(), ['b.txt', 'link'])
  t.is(exitCode, 1)
  t.is((await find('b.txt'))?.size, 3)
  t.is((await db('segments').where({ refs: 0, state: 'drawn' })).length, 0)
})

test.serial('two concurrent imports import every file once', async t => {
  const { db, ana, from, objects, write } = await setup(t)
  const options = { db, store: await filesystemStore(objects), folder: from, ownerId: ana.id }
  for (let n = 0; n < 30; n++) await write(`${n % 3}/${n}.txt`, `file ${n}`)
  const ends = await Promise.all([importLegacy(options), importLegacy(options)])
  t.is(ends[0].imported + ends[1].imported, 30)
  t.is((await db('objects').where({ owner_id: ana.id })).length, 30)
})

test.serial('damage is reported: bytes, size, a missing segment, an unreferenced file', async t => {
  const { db, ana, objects, write, importAll, berth, find, fileOf } = await setup(t)
  await db('object_parts').delete()
  await db('objects').delete()
  await db('segments').delete()
  for (const name of ['good', 'flipped', 'short', 'missing']) await write(`${name}.txt`, `this is ${name}`)
  await importAll()
  const config = { kind: 'filesystem', folder: objects } as const
  t.regex(await storedSegments(db, config), /^4 segments, .* all present; no unreferenced file$/)
  t.is((await berth('blob', 'verify')).stdout, '4 segments, 0.00 GB: all intact.\n')
  const [flipped, short, missing] = await Promise.all(
    ['flipped', 'short', 'missing'].map(async name => fileOf(await find(`${name}.txt`))),
  )
  await chmod(flipped!.path, 0o600)
  await writeFile(flipped!.path, 'this is FLIPPED')
  await truncate(short!.path, 3)
  await rm(missing!.path)
  const unreferenced = newId()
  const store = await filesystemStore(objects)
  await store.put(unreferenced, Readable.from('who?'))
  const { stdout, exitCode } = await berth('blob', 'verify', '--json')
  t.is(exitCode, 1)
  const report = JSON.parse(stdout)
  t.is(report.bodies, 4)
  t.deepEqual(
    new Map(report.damaged.map(({ id, what, objects }: never) => [id, [what, objects]])),
    new Map(
      report.damaged.map(({ id }: { id: string }) => [
        id,
        {
          [flipped!.id]: ['other bytes', [`${ana.id}/flipped.txt`]],
          [short!.id]: ['another size', [`${ana.id}/short.txt`]],
          [missing!.id]: ['missing', [`${ana.id}/missing.txt`]],
        }[id],
      ]),
    ),
  )
  t.is(report.damaged.length, 3)
  const state = await storedSegments(db, config)
  t.true(
    state.includes('2 MISSING OR OF WRONG SIZE') &&
      state.includes(`1 UNREFERENCED FILES, the first is ${unreferenced}`),
    state,
  )
})

test.serial('segments stored in their rows are verified too', async t => {
  const { db, ana, berth } = await setup(t)
  await db('object_parts').delete()
  await db('objects').delete()
  await db('segments').delete()
  for (const key of ['good', 'flipped', 'short']) {
    const bytes = Buffer.from(`this is ${key}`)
    const part = { segmentId: newId(), length: bytes.length, body: factsOf(bytes), bytes }
    await putObject(
      db,
      { ownerId: ana.id, bucket: 'public', key, contentType: 'text/plain', etag: part.body.md5 },
      part,
    )
  }
  t.is((await berth('blob', 'verify')).stdout, '3 segments, 0.00 GB: all intact.\n')
  const overwrite = (from: string, to: string) =>
    db('segments')
      .where({ bytes: Buffer.from(`this is ${from}`) })
      .update({ bytes: Buffer.from(to) })
  await overwrite('flipped', 'this is FLIPPED')
  await overwrite('short', 'this')
  const report = JSON.parse((await berth('blob', 'verify', '--json')).stdout)
  t.deepEqual(report.damaged.map(({ what, objects }: never) => [what, objects]).sort(), [
    ['another size', [`pub/${ana.id}/short`]],
    ['other bytes', [`pub/${ana.id}/flipped`]],
  ])
})

test.serial('receipts are listed and shown', async t => {
  const { db, ana, write, importAll, berth } = await setup(t)
  await write('a.txt', 'over')
  await importAll()
  await db('objects')
    .where({ owner_id: ana.id })
    .update({ expires_at: new Date(Date.now() - 1000) })
  const [id, idle] = [newId(), newId()]
  await openReceipt(db, id, 'expiry')
  await openReceipt(db, idle, 'sweep')
  await removeExpiredObjects(db, id)
  await checkReceiptLines(db, id)
  await db('blob_receipts').update({ ended_at: new Date() })
  const listed = JSON.parse((await berth('ops', 'receipts', '--json')).stdout)
  t.like(listed, [{ id, kind: 'expiry', removed: 1, bytes: 4, unproved: 0 }])
  t.is(JSON.parse((await berth('ops', 'receipts', '--all', '--json')).stdout).length, 2)
  t.regex((await berth('ops', 'receipts')).stdout, new RegExp(`${id.slice(0, 8)} +expiry .* all verified as removed`))
  const { lines } = JSON.parse((await berth('ops', 'receipt', id.slice(0, 8), '--json')).stdout)
  t.like(lines, [{ subject: `${ana.id}/a.txt`, proof: 'no such object', bytes: 4 }])
  const story = (await berth('ops', 'receipt', id)).stdout
  t.regex(story, /why: expired at /)
  t.regex(story, /segment [0-9a-f]{32}: waits for the sweep/)
  t.regex((await berth('ops', 'receipt', 'ffff')).stderr, /There is no receipt/)
  t.regex((await berth('ops', 'receipts', '--kind', 'x')).stderr, /--kind must be one of: reclaim, expiry/)
})
