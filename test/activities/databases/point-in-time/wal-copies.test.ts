import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import test, { type ExecutionContext } from 'ava'
import { ArchiveFolder } from '../../../../activities/databases/point-in-time/archive-folder.ts'
import { type ArchivedVolume, walCopies } from '../../../../activities/databases/point-in-time/wal-copies.ts'
import { filesystemStore } from '../../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../../activities/objects/port.ts'
import { readRestorable } from '../../../../db/databases/point-in-time/backups.ts'
import { findWalSegment, listCopyStates } from '../../../../db/databases/point-in-time/copies.ts'
import { runProcess, systemEnvironment } from '../../../../lib/child-process.ts'
import { pointInTimeRules, walFileName } from '../../../../policy/databases/point-in-time.ts'
import { newId } from '../../../../policy/ids.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()
const signal = AbortSignal.timeout(600_000)

interface Change {
  held?: () => Promise<void>
  put?: (put: ObjectStore['put']) => ObjectStore['put']
}

/** A volume with an archive folder, and what copies its files. */
async function scene(t: ExecutionContext, { held = async () => {}, put = same => same }: Change = {}) {
  const { db } = await database
  const root = mkdtempSync(join(tmpdir(), 'berth-wal-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const [data, stored] = [join(root, 'files'), join(root, 'store')]
  const archive = join(data, 'wal')
  for (const folder of [archive, stored]) mkdirSync(folder, { recursive: true })
  const store = await filesystemStore(stored)
  const copies = walCopies({ db, store: { put: put(store.put.bind(store)) }, held })
  const volume: ArchivedVolume = { databaseId: newId(), generation: 1, ownerId: newId(), data }
  /** The engine has finished this WAL file. */
  const finish = (number: number, timeline = 1): Buffer => {
    const bytes = Buffer.alloc(pointInTimeRules.fileBytes)
    randomBytes(64).copy(bytes, 100)
    bytes.writeBigUInt64LE(BigInt(number) * BigInt(bytes.length), 8)
    writeFileSync(join(archive, walFileName({ timeline, number })), bytes)
    return bytes
  }
  const contents = async (number: number, timeline = 1): Promise<Buffer | null> => {
    const id = await findWalSegment(db, { ...volume, timeline, number })
    return id ? gunzipSync(await buffer(await store.get(id))) : null
  }
  const segments = () =>
    db('segments').whereIn('id', db('database_wal').where({ database_id: volume.databaseId }).select('segment_id'))
  return {
    ...{ db, root, data, archive, store, copies, volume, finish, contents, segments },
    copy: (with_ = copies) => with_.copy(volume, signal),
    names: () => readdirSync(archive).sort(),
    state: async () => (await listCopyStates(db, volume.databaseId))[0],
    again: () => walCopies({ db, store, held: async () => {} }),
    /** A base backup that begins with this WAL file. */
    async backup(first: number) {
      const segment_id = newId()
      await db('segments').insert({ id: segment_id, state: 'stored', refs: 1 })
      const id = newId()
      const of = { database_id: volume.databaseId, generation: 1, timeline: 1 }
      await db('database_backups').insert({ id, ...of, first_file: first, segment_id, size: 1, from_at: new Date(0) })
      return async () => {
        const row = await db('database_backups').where({ id }).first('last_file', 'broken')
        return { last: row.last_file === null ? null : Number(row.last_file), broken: row.broken }
      }
    },
  }
}

test.serial('finished files are stored, recorded, and only then removed; backups go on with them', async t => {
  const { finish, copy, names, contents, backup, segments, state } = await scene(t)
  const written = [finish(7), finish(8), finish(0x1ff)]
  const [whole, later] = [await backup(7), await backup(8)]
  await copy()
  t.deepEqual(names(), [])
  for (const [index, number] of [7, 8, 0x1ff].entries()) t.true((await contents(number))!.equals(written[index]!))
  t.deepEqual(await whole(), { last: 8, broken: true }, 'files between 8 and 511 are missing')
  t.deepEqual(await later(), { last: 8, broken: true })
  t.deepEqual(await segments().pluck('refs'), [1, 1, 1])
  const sizes: string[] = await segments().pluck('size')
  const stored = sizes.reduce((sum, size) => sum + Number(size), 0)
  t.true(stored > 0)
  t.like(await state(), { waiting: 0, failure: null, stored: String(stored) })
})

test.serial('anything else that the engine leaves is removed, not followed, not read and not waited for', async t => {
  const { finish, copy, names, archive, root, db, volume, contents, backup, state } = await scene(t)
  const secret = join(root, 'secret')
  writeFileSync(secret, Buffer.alloc(pointInTimeRules.fileBytes))
  const name = (number: number) => join(archive, walFileName({ timeline: 1, number }))
  const good = await backup(1)
  finish(1)
  symlinkSync(secret, name(2))
  await runProcess('mkfifo', [name(3)], { env: systemEnvironment })
  writeFileSync(name(4), 'short')
  writeFileSync(name(5), Buffer.concat([finish(5), Buffer.alloc(1)]))
  mkdirSync(name(6))
  // Another file's content under its name.
  writeFileSync(name(8), Buffer.alloc(pointInTimeRules.fileBytes, 7))
  for (const other of ['évil', '00000001000000000000000a', '000000010000000000000100', 'gap.new', '.x'])
    writeFileSync(join(archive, other), 'x')
  symlinkSync('/', join(archive, 'root'))
  await copy()
  t.deepEqual(names(), [])
  t.true(existsSync(secret) && existsSync('/etc'))
  t.truthy(await contents(1))
  t.is(
    await db('database_wal')
      .where({ database_id: volume.databaseId })
      .count()
      .first()
      .then(row => Number(row!.count)),
    1,
  )
  t.deepEqual(await good(), { last: 1, broken: true })
  t.regex((await state())!.failure!, /no whole WAL file/)
})

test.serial('the archive folder itself is no link, and hundreds of names do not hold up its files', async t => {
  const { finish, copy, names, archive, data, root, volume, contents } = await scene(t)
  for (let other = 0; other < 300; other++) writeFileSync(join(archive, `x${other}`), '')
  finish(3)
  for (let round = 0; round < 60 && names().length > 0; round++) await copy()
  t.deepEqual(names(), [])
  t.truthy(await contents(3))

  const elsewhere = join(root, 'elsewhere')
  mkdirSync(elsewhere)
  writeFileSync(join(elsewhere, 'precious'), 'x')
  rmSync(archive, { recursive: true })
  symlinkSync(elsewhere, archive)
  await copy()
  rmSync(data, { recursive: true })
  symlinkSync(root, data)
  await copy()
  t.deepEqual(readdirSync(elsewhere), ['precious'])
  t.is(volume.data, data)
})

test.serial('a host that ends after the store has a file, or after its row, copies it once', async t => {
  const { finish, copy, names, archive, again, contents, segments, db, volume } = await scene(t, {
    put:
      put =>
      async (...body) => {
        await put(...body)
        throw new Error('the host ends here')
      },
  })
  const written = finish(1)
  await t.throwsAsync(copy(), { message: 'the host ends here' })
  t.is(names().length, 1, 'it waits for the next attempt')
  t.is(await contents(1), null)
  await copy(again())
  t.true((await contents(1))!.equals(written))
  t.log('it ended before the file was removed')
  writeFileSync(join(archive, walFileName({ timeline: 1, number: 1 })), written)
  await copy(again())
  t.deepEqual(names(), [])
  t.is((await segments()).length, 1)
  t.is(
    await db('database_wal')
      .where({ database_id: volume.databaseId })
      .count()
      .first()
      .then(row => Number(row!.count)),
    1,
  )
})

test.serial('a store that is down keeps the files, and says so until it is back', async t => {
  let down = true
  const { finish, copy, names, state, contents } = await scene(t, {
    put:
      put =>
      async (...body) => {
        if (down) throw new Error('the store is down')
        return put(...body)
      },
  })
  finish(1)
  finish(2)
  await t.throwsAsync(copy())
  t.is(names().length, 2)
  t.like(await state(), { waiting: 2, failure: 'the store is down' })
  t.truthy((await state())!.failed_at)
  down = false
  await copy()
  t.like(await state(), { waiting: 0, failure: null, failed_at: null })
  t.truthy(await contents(2))
})

test.serial('the mark of left-out files ends every backup, once it is recorded', async t => {
  const { copy, names, archive, backup, finish, state } = await scene(t)
  finish(1)
  const good = await backup(1)
  writeFileSync(join(archive, 'gap'), '')
  await copy()
  t.deepEqual(names(), [])
  t.deepEqual(await good(), { last: 1, broken: true })
  t.truthy((await state())!.gap_at)
})

test.serial(
  'a gap while the store is down immediately limits what can be restored, and does not affect files that wait',
  async t => {
    let down = true
    const { db, copy, archive, backup, finish, volume } = await scene(t, {
      put:
        put =>
        async (...body) => {
          if (down) throw new Error('the store is down')
          return put(...body)
        },
    })
    const good = await backup(1)
    const row = { id: volume.databaseId, generation: 1, created_at: new Date(0), host_id: 'h' }
    const current = async () => (await readRestorable(db, row)).backups.map(one => one.current)
    finish(1)
    await t.throwsAsync(copy())
    t.deepEqual(await current(), [true], 'it waits, and nothing is missing')
    writeFileSync(join(archive, 'gap'), '')
    await t.throwsAsync(copy())
    t.deepEqual(await current(), [false])
    down = false
    await copy()
    t.deepEqual(await good(), { last: 1, broken: true })
    t.deepEqual(await current(), [false])
  },
)

test.serial('a host that another process has taken over records nothing', async t => {
  const { finish, copy, names, archive, db, volume } = await scene(t, {
    held: () => Promise.reject(new Error('taken over')),
  })
  finish(1)
  writeFileSync(join(archive, 'gap'), '')
  await t.throwsAsync(copy(), { message: 'taken over' })
  t.is(names().length, 2)
  t.deepEqual(await db('database_wal').where({ database_id: volume.databaseId }), [])
})

test.serial('a store holds one file of an account at a time, and a few of a host', async t => {
  const { db } = await database
  let running: string[] = []
  let most = 0
  const turns: string[] = []
  const scenes = await Promise.all([1, 2, 3].map(() => scene(t)))
  const owner = newId()
  const volumes = scenes.flatMap(({ volume, finish }, index) => {
    for (const number of [1, 2, 3]) finish(number)
    return [{ ...volume, ownerId: index === 2 ? newId() : owner }]
  })
  const store: Pick<ObjectStore, 'put'> = {
    async put(id, body, options) {
      const owned = await db('segments').where({ id }).first('id')
      running.push(owned.id)
      most = Math.max(most, running.length)
      const bytes = await buffer(body)
      turns.push(createHash('sha256').update(bytes).digest('hex'))
      running = running.filter(one => one !== id)
      void options
      return { size: bytes.length, md5: '', sha256: turns.at(-1)!, crc32: 0 }
    },
  }
  const copies = walCopies({ db, store, held: async () => {} })
  await Promise.all(volumes.map(volume => copies.copy(volume, signal)))
  t.is(turns.length, 9)
  t.true(most <= pointInTimeRules.copies)
})

test.serial('a folder that cannot be removed is reported, and files go on', async t => {
  const { finish, copy, names, archive, state, contents } = await scene(t)
  mkdirSync(join(archive, 'deep', 'inside'), { recursive: true })
  chmodSync(join(archive, 'deep'), 0o000)
  finish(1)
  await copy()
  t.deepEqual(names(), ['deep'])
  t.regex((await state())!.failure!, /cannot be removed: deep/)
  t.truthy(await contents(1))
})

test('a stopped engine is complete once it has archived every file, and never by a link of its own', async t => {
  const data = mkdtempSync(join(tmpdir(), 'berth-states-'))
  t.teardown(() => rmSync(data, { recursive: true }))
  t.false(await ArchiveFolder.isComplete(data), 'without the folder nothing is known')
  const states = join(data, 'pg/pg_wal/archive_status')
  mkdirSync(states, { recursive: true })
  writeFileSync(join(states, '000000010000000000000001.done'), '')
  t.true(await ArchiveFolder.isComplete(data))
  writeFileSync(join(states, '000000010000000000000002.ready'), '')
  t.false(await ArchiveFolder.isComplete(data))
  rmSync(states, { recursive: true })
  mkdirSync(join(data, 'empty'))
  symlinkSync(join(data, 'empty'), states)
  t.false(await ArchiveFolder.isComplete(data))
})
