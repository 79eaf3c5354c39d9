import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import {
  adoptParts,
  confirmFolder,
  confirmStore,
  folderMark,
  storeMark,
} from '../../activities/installation/installation.ts'
import { filesystemStore } from '../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../activities/objects/port.ts'
import { s3Store } from '../../activities/objects/s3.ts'
import { unknownBodies } from '../../activities/objects/segment-verification.ts'
import { openDatabase } from '../../db/database.ts'
import { readInstallation } from '../../db/installation.ts'
import { parseConfig } from '../../policy/config.ts'
import { installationMark, newAppId, newId } from '../../policy/ids.ts'
import { databaseName, WrongInstallation } from '../../policy/installation/installation.ts'
import { demandSameInstallation, demandSameInstallationSoon } from '../../workers/same-installation.ts'
import { masterKey } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { FailingStore } from '../kit/fakes/failing-store.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { demandRoot } from '../kit/root.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { postgresLine } from '../kit/servers/postgres-line.ts'
import { startS3 } from '../kit/servers/s3.ts'

const ours = testDatabase()
const another = testDatabase()
const empty = testDatabase()
const root = mkdtempSync(join(tmpdir(), 'berth-same-'))
test.after.always(() => rmSync(root, { recursive: true, force: true }))

const newFolder = () => mkdtempSync(join(root, 'data-'))
const wrong = (t: ExecutionContext, work: Promise<unknown>, message: RegExp) =>
  t.throwsAsync(work, { instanceOf: WrongInstallation, message })

test('new folders and stores get the id of their database once, also concurrently, and are compared from then on', async t => {
  const { db } = await ours
  const folders = [newFolder(), newFolder()]
  const ids = await Promise.all([...folders, ...folders].map(folder => confirmFolder(db, folder, 'ours')))
  t.is(new Set(ids).size, 1)
  t.is(await folderMark(folders[0] as string), ids[0] as string)
  const other = await another
  await confirmFolder(other.db, newFolder(), 'another')
  await wrong(
    t,
    confirmFolder(other.db, folders[0] as string, 'another'),
    /^The data folder .* belongs to installation/,
  )
  writeFileSync(join(folders[1] as string, 'installation.json'), 'torn')
  await t.throwsAsync(confirmFolder(db, folders[1] as string, 'ours'), { instanceOf: SyntaxError })
})

test('a process without access to the data folder leaves the mark to others', async t => {
  demandRoot()
  const { db } = await ours
  const folder = newFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', folder])
  t.teardown(() => void execFileSync('umount', [folder]))
  const id = await confirmFolder(db, folder, 'ours')
  t.is(id, (await readInstallation(db))!.id)
  t.is(await folderMark(folder), null)
  t.is(await confirmFolder(db, join(folder, 'data'), 'ours'), id, 'which need not even be there')
})

test('a folder with applications is adopted by a database that knows some, and refused by one that knows none', async t => {
  const { db } = await ours
  const folder = newFolder()
  mkdirSync(join(folder, 'hosts/local/images'), { recursive: true })
  writeFileSync(join(folder, 'hosts/local/images/probe-1.ext4'), '')
  await confirmFolder((await another).db, folder, 'another')
  rmSync(join(folder, 'installation.json'))
  writeFileSync(join(folder, `hosts/local/images/${newAppId()}.ext4`), '')
  const nothing = await empty
  await wrong(t, confirmFolder(nothing.db, folder, 'empty'), /contains applications, and the database empty has none/)
  t.is(await readInstallation(nothing.db), null, 'and is given no id')
  t.is(await folderMark(folder), null)
  const make = rows(db)
  await make.host('local')
  await make.app((await make.user()).id)
  t.is(await confirmFolder(db, folder, 'ours'), (await readInstallation(db))?.id as string)
  await wrong(t, confirmFolder(nothing.db, folder, 'empty'), /and the database empty to none yet/)
})

/** An object store, another one of the same kind, and one more way to the first. */
async function storesAreDistinguished(t: ExecutionContext, open: (name: string) => Promise<ObjectStore>) {
  const { db } = await another
  await confirmFolder(db, newFolder(), 'another')
  await db('settings').update({ value: db.raw(`value || '{"store": false}'`) })
  const store = await open('ours')
  await store.put(newId(), Readable.from([Buffer.from('from before')], { objectMode: false }))
  await Promise.all([confirmStore(db, store), confirmStore(db, await open('ours'))])
  t.is(await storeMark(store), (await readInstallation(db))?.id as string)
  await wrong(t, confirmStore(db, await open('elsewhere')), /does not carry the mark of installation/)
  t.is(await storeMark(await open('elsewhere')), null)
  const { db: ourDb } = await ours
  await confirmFolder(ourDb, newFolder(), 'ours')
  await wrong(t, confirmStore(ourDb, store), /^The object store belongs to installation/)
  t.deepEqual(await unknownBodies(db, store, [installationMark]), [], 'the mark is no body of nobody')
}

test.serial('an object store is distinguished from others: folders', async t => {
  const folder = newFolder()
  await storesAreDistinguished(t, name => filesystemStore(join(folder, name)))
})

test.serial('an object store is distinguished from others: S3', async t => {
  const { config, close } = await startS3()
  t.teardown(close)
  await storesAreDistinguished(t, name => s3Store({ ...config, bucket: name }, root))
})

test('an intended move makes folder, hosts and object store the database’s', async t => {
  const { db } = await another
  const folder = newFolder()
  const host = join(folder, 'hosts/local')
  for (const part of [folder, host]) {
    mkdirSync(part, { recursive: true })
    writeFileSync(join(part, 'installation.json'), '{"id":"of-before"}')
  }
  const store = await filesystemStore(join(folder, 'objects'))
  const id = await adoptParts(db, folder, store)
  t.is(id, (await readInstallation(db))?.id as string)
  for (const part of [folder, host]) t.is(await confirmFolder(db, part, 'another'), id)
  await confirmStore(db, store)
  t.deepEqual(readdirSync(folder).sort(), ['hosts', 'installation.json', 'objects'], 'no draft is left')
})

test('a process started with the wrong DATABASE_URL exits and says what to do', async t => {
  t.timeout(120_000)
  const right = await ours
  const folder = newFolder()
  const id = await confirmFolder(right.db, folder, 'ours')
  const { url, db } = await another
  await confirmFolder(db, newFolder(), 'another')
  const settings = {
    ...{ BERTH_DATA: folder, DATABASE_URL: url, BERTH_MASTER_KEY: masterKey, TEMPORAL_ADDRESS: '127.0.0.1:1' },
    ...{ HOST_NAME: 'wrong', HOST_FIREWALL: 'off', HOST_QUOTA: 'off' },
  }
  for (const name of ['api', 'worker', 'host'] as const) {
    const entry = startEntry(name, settings)
    t.is(await entry.ended, 1, name)
    const said = entry.output()
    t.true(said.includes(`The data folder ${folder} belongs to installation ${id}`), said)
    t.true(said.includes(`and the database ${databaseName(url)} to installation`), said)
    t.true(said.includes('berth adopt --yes'), said)
  }
  t.is(await db('hosts').where({ id: 'wrong' }).first(), undefined, 'nothing was written')
  t.is(JSON.parse(readFileSync(join(folder, 'installation.json'), 'utf8')).id, id)
})

/** A data folder of this installation, and what its processes are started with. */
async function rightFolder() {
  const { url, db } = await another
  const folder = newFolder()
  await confirmFolder(db, folder, 'another')
  const settings = {
    ...{ BERTH_DATA: folder, DATABASE_URL: url, BERTH_MASTER_KEY: masterKey, TEMPORAL_ADDRESS: '127.0.0.1:1' },
    ...{ HOST_NAME: 'right', HOST_FIREWALL: 'off', HOST_QUOTA: 'off' },
  }
  return { db, folder, settings }
}

test('a process whose object store belongs to another installation exits and says what to do', async t => {
  t.timeout(120_000)
  const { db, folder, settings } = await rightFolder()
  const store = await filesystemStore(join(folder, 'objects'))
  await store.put(installationMark, Readable.from([Buffer.from('{"id":"of-before"}')], { objectMode: false }))
  for (const name of ['api', 'worker', 'host'] as const) {
    const entry = startEntry(name, settings)
    const end = await Promise.race([entry.ended, entry.ready.then(() => 'it is ready')])
    await entry.kill('SIGKILL')
    t.is(end, 1, entry.output())
    t.regex(entry.output(), /The object store belongs to installation of-before, .+ berth adopt --yes/)
  }
  t.is(await db('hosts').where({ id: 'right' }).first(), undefined, 'nothing was written')
})

test('a host whose folder belongs to another installation exits and says what to do', async t => {
  t.timeout(120_000)
  const { db, folder, settings } = await rightFolder()
  const own = join(folder, 'hosts/right')
  mkdirSync(own, { recursive: true })
  writeFileSync(join(own, 'installation.json'), '{"id":"of-before"}')
  const entry = startEntry('host', settings)
  const end = await Promise.race([entry.ended, entry.ready.then(() => 'it is ready')])
  await entry.kill('SIGKILL')
  t.is(end, 1, entry.output())
  t.true(entry.output().includes(`The data folder ${own} belongs to installation of-before`), entry.output())
  t.is(await db('hosts').where({ id: 'right' }).first(), undefined, 'nothing was written')
})

test('a process that starts while its database is down compares as soon as it answers', async t => {
  t.timeout(240_000)
  const right = await ours
  const folder = newFolder()
  await confirmFolder(right.db, folder, 'ours')
  const { url, db } = await another
  await confirmFolder(db, newFolder(), 'another')
  const line = await postgresLine(url)
  t.teardown(() => line.close())
  const settings = {
    ...{ BERTH_DATA: folder, DATABASE_URL: line.url, BERTH_MASTER_KEY: masterKey, TEMPORAL_ADDRESS: '127.0.0.1:1' },
    ...{ HOST_NAME: 'late', HOST_FIREWALL: 'off', HOST_QUOTA: 'off' },
  }
  line.admit(false)
  const entries = (['api', 'worker', 'host'] as const).map(name => startEntry(name, settings))
  t.teardown(async () => void (await Promise.all(entries.map(entry => entry.kill('SIGKILL')))))
  const waits = /the database is not reachable; waiting to check which installation/
  for (const entry of entries) await comesTrue(() => waits.test(entry.output()))
  line.admit(true)
  for (const entry of entries) {
    t.is(await entry.ended, 1, entry.output())
    t.true(entry.output().includes(`The data folder ${folder} belongs to installation`), entry.output())
  }
  t.is(await db('hosts').where({ id: 'late' }).first(), undefined, 'nothing was written')
})

test('the API does not wait for a database that is down, and stops comparing once it ends', async t => {
  const db = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/none', pool: 1 })
  t.teardown(() => db.destroy())
  const config = parseConfig({ BERTH_DATA: root }, '/')
  const store = await filesystemStore(join(root, 'objects'))
  const ending = new AbortController()
  const folder = newFolder()
  let comparisons = 0
  const parts = {
    ...{ db, config, store, log: pino({ level: 'silent' }) },
    get folders() {
      comparisons++
      return [folder]
    },
  }
  await demandSameInstallationSoon(parts, ending.signal)
  t.is(comparisons, 1)
  ending.abort()
  await setImmediate() // a comparison would begin in the turn in which the pause ends
  t.is(comparisons, 1)
})

test('a part that is down at a start is logged immediately, then less and less often, and when it is back', async t => {
  const { db } = await ours
  const store = await FailingStore.open()
  t.teardown(() => store.close())
  store.away = true
  let seconds = 0
  const clock = {
    now: () => seconds * 1000,
    pause: async (ms: number) => {
      seconds += ms / 1000
      store.away = seconds < 200
    },
  }
  const reported: unknown[] = []
  const write = (line: string) => {
    const { level, msg } = JSON.parse(line)
    reported.push([seconds, level, msg])
  }
  const remote = { OBJECT_STORE: 's3', S3_STORE_ENDPOINT: 'http://127.0.0.1:1', S3_STORE_BUCKET: 'b' }
  const keys = { S3_STORE_ACCESS_KEY_ID: 'k', S3_STORE_SECRET_ACCESS_KEY: 's' }
  const config = parseConfig({ BERTH_DATA: root, ...remote, ...keys }, '/')
  await demandSameInstallation({
    db,
    config,
    store,
    folders: [newFolder()],
    log: pino({ level: 'info' }, { write }),
    clock,
  })
  const away = [0, 2, 6, 14, 30, 62, 122, 182].map(second => [
    second,
    40,
    'the object store is not reachable; waiting to check which installation it belongs to',
  ])
  t.deepEqual(reported, [...away, [200, 30, 'the object store is reachable again']])
})
