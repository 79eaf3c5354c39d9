import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { VolumeLost } from '../../../activities/volumes/port.ts'
import type { AppRow } from '../../../db/apps/apps.ts'
import { listOverdue, owePurge, payOverdue, readCacheVersion } from '../../../db/apps/cache-versions.ts'
import { maxFileBytes } from '../../../policy/apps/file-content.ts'
import { newAppId } from '../../../policy/ids.ts'
import { hostReadKey } from '../../../policy/keys.ts'
import { masterKey } from '../../kit/actors/api.ts'
import type { Contents } from '../../kit/folders.ts'
import { fileHost } from '../../kit/hosts/file-host.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const started = database.then(({ db }) => fileHost('h1', db))
test.after.always('stop the host', async () => (await started).stop())

async function hosted(contents: Contents, app = { id: newAppId(), uid: 10_778 } as AppRow) {
  const host = await started
  const files = await host.bring(app, contents)
  const ask = (method: string, path: string, init: RequestInit = {}) =>
    fetch(`${host.url}/apps/${app.id}/${path}`, {
      method,
      headers: { authorization: `Bearer ${hostReadKey(masterKey, 'h1')}` },
      ...init,
    })
  return { host, app, files, ask }
}

/** An application with a row. */
async function placed() {
  const make = rows((await database).db)
  await make.host('other')
  return make.app((await make.user()).id)
}

const refusal = async (answer: Promise<Response>) => {
  const reported = await answer
  const { code } = (await reported.json()) as { code: string }
  return [reported.status, code]
}

test('only callers with the host’s key get an answer, and no path leads outside', async t => {
  const { ask, files } = await hosted({ file: 'text' })
  for (const [method, path] of [
    ['GET', 'files?path='],
    ['GET', 'files/content?path=file'],
    ['PUT', 'files?path=file'],
    ['DELETE', 'files?path=file'],
  ] as const)
    for (const authorization of ['', 'Bearer x', `Bearer ${hostReadKey(masterKey, 'h2')}`])
      t.is((await ask(method, path, { headers: { authorization } })).status, 401)
  for (const path of ['..', 'a/../../b', '%00', `${'a'.repeat(300)}`]) {
    t.deepEqual(await refusal(ask('GET', `files?path=${path}`)), [400, 'INVALID_PATH'], path)
    t.deepEqual(await refusal(ask('PUT', `files?path=${path}`, { body: 'x' })), [400, 'INVALID_PATH'], path)
  }
  for (const method of ['PUT', 'PATCH', 'DELETE'])
    t.deepEqual(await refusal(ask(method, 'files?path=/')), [400, 'INVALID_PATH'], 'the root itself')
  t.deepEqual(await refusal(ask('PATCH', 'files?path=file&to=../x')), [400, 'INVALID_PATH'])
  t.deepEqual(readdirSync(files), ['file'])
})

test('a change whose caller disconnected while it waited for the lock is not made', async t => {
  const { host, app, ask, files } = await hosted({ file: 'text' })
  let free = () => {}
  const other = host.locks(app.id, () => new Promise<void>(resolve => (free = resolve)))
  const caller = new AbortController()
  const left = [
    ask('PUT', 'files?path=new', { body: 'x', signal: caller.signal }),
    ask('DELETE', 'files?path=file', { signal: caller.signal }),
  ]
  await sleep(100)
  caller.abort()
  for (const { status } of await Promise.allSettled(left)) t.is(status, 'rejected')
  await sleep(100)
  free()
  await other
  await host.locks(app.id, async () => {})
  t.deepEqual(readdirSync(files), ['file'])
})

test.serial(
  'a change of a file owes a purge until it is done: what a host cannot do itself is done by a round',
  async t => {
    const { db } = await database
    const { app } = await placed()
    const { ask, files } = await hosted({ file: 'text' }, app)
    const purges = () => readCacheVersion(db, app.id)
    const owed = () => db('owed_purges').where({ app_id: app.id })
    t.is((await ask('PUT', 'files?path=file', { body: 'new' })).status, 204)
    t.is((await ask('DELETE', 'files?path=missing')).status, 404)
    t.deepEqual([await purges(), await owed()], [2, []], 'also by one that fails')

    // As if the host ended between the change and its purge.
    await db.raw(`alter table apps add constraint stuck check (id <> '${app.id}' or cache_version < 3) not valid`)
    t.is((await ask('PUT', 'files?path=file', { body: 'newest' })).status, 204, 'the file is changed')
    t.is(readFileSync(join(files, 'file'), 'utf8'), 'newest')
    await db.raw('alter table apps drop constraint stuck')
    const later = (seconds: number) =>
      db('owed_purges').update({ due_at: db.raw('due_at - make_interval(secs => ?)', [seconds]) })
    await later(10)
    t.deepEqual(await listOverdue(db), [], 'until 15 s have passed its host may still do it')
    await later(15 - 10)
    t.deepEqual(await listOverdue(db), [app.id])
    const other = await db.transaction()
    await other('apps').where({ id: app.id }).forUpdate().first('id')
    await payOverdue(db, app.id)
    t.is(await purges(), 2, 'it waits for no lock')
    await other.rollback()
    await Promise.all([payOverdue(db, app.id), payOverdue(db, app.id)])
    t.is(await purges(), 3)
    t.log('the host may have been suspended before its change')
    await later(590)
    t.deepEqual(await listOverdue(db), [])
    await later(600 - 590)
    await payOverdue(db, app.id)
    t.deepEqual([await purges(), await owed()], [4, []])
  },
)

test('a change is refused while its purge cannot be recorded, and one of an application without an address owes none', async t => {
  const { db } = await database
  const { app } = await placed()
  const { ask, files } = await hosted({ file: 'text' }, app)
  await db('apps').where({ id: app.id }).update({ subdomain: null })
  t.is(await owePurge(db, app.id), null)
  t.is((await ask('PUT', 'files?path=file', { body: 'new' })).status, 204)
  t.is(await readCacheVersion(db, app.id), 0)
  await db('apps').where({ id: app.id }).update({ subdomain: app.subdomain })
  await db.raw(`alter table owed_purges add constraint refused check (app_id <> '${app.id}') not valid`)
  t.is((await ask('PUT', 'files?path=file', { body: 'newest' })).status, 500)
  t.is(readFileSync(join(files, 'file'), 'utf8'), 'new')
  await db.raw('alter table owed_purges drop constraint refused')
})

test.serial('readers that disconnect in the middle leave nothing open', async t => {
  const { ask, files } = await hosted({})
  for (let index = 0; index < 5000; index++) writeFileSync(join(files, `a-file-with-a-name-${index}`), '')
  writeFileSync(join(files, 'large'), Buffer.alloc(maxFileBytes))
  const open = () => readdirSync('/proc/self/fd').filter(fd => leadsTo(fd).startsWith(files)).length
  for (let round = 0; round < 10; round++)
    for (const path of ['files?path=', 'files/content?path=large']) {
      const reader = (await ask('GET', path)).body!.getReader()
      await reader.read()
      await reader.cancel()
    }
  for (let waited = 0; open() > 0 && waited < 1500; waited++) await sleep(20)
  t.is(open(), 0)
})

test('if the disk of an application is missing, every method answers the same', async t => {
  const { host, app, ask, files } = await hosted({ file: 'text' })
  renameSync(files, `${files}.away`)
  for (const [method, path] of [
    ['GET', 'files?path='],
    ['GET', 'files?path=folder'],
    ['GET', 'files/content?path=file'],
    ['PUT', 'files?path=file'],
    ['PATCH', 'files?path=file&to=other'],
    ['DELETE', 'files?path=file'],
  ] as const) {
    const reported = await ask(method, path, method === 'PUT' ? { body: 'x' } : {})
    t.is(reported.status, 409, `${method} ${path}`)
    t.deepEqual(await reported.json(), { code: 'ACTION_FAILED', message: new VolumeLost(app.id).message })
  }
  t.deepEqual(readdirSync(host.volumes.path(app.id)).sort(), ['files.away', 'releases'], 'nothing is made in its place')
  renameSync(`${files}.away`, files)
  t.is(await (await ask('GET', 'files/content?path=file')).text(), 'text')
  t.deepEqual(await refusal(ask('GET', 'files?path=folder')), [404, 'FILE_NOT_FOUND'])
})

/** A process that holds a write lease on a file, as a program may on its own; it gives it back `afterMs` after it is asked to. */
async function leaseOf(t: ExecutionContext, file: string, afterMs: number): Promise<void> {
  const script = `
import fcntl, os, signal, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
asked = []
signal.signal(signal.SIGIO, lambda *_: asked.append(1))
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
while not asked: time.sleep(0.01)
time.sleep(float(sys.argv[2]) / 1000)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
time.sleep(60)
`
  const holder = spawn('python3', ['-c', script, file, String(afterMs)], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
}

test('a file with a lease of its program is read once the lease is released, and refused if that takes too long', async t => {
  const { ask, files } = await hosted({ soon: 'text', late: 'text', other: 'text' })
  await leaseOf(t, join(files, 'soon'), 300)
  t.is(await (await ask('GET', 'files/content?path=soon')).text(), 'text')
  await leaseOf(t, join(files, 'late'), 60_000)
  const reported = await ask('GET', 'files/content?path=late')
  t.is(reported.status, 504)
  const { code, message } = (await reported.json()) as { code: string; message: string }
  t.is(code, 'CLUSTER_TIMEOUT')
  t.regex(message, /lease/)
  t.is(await (await ask('GET', 'files/content?path=other')).text(), 'text')
  t.is((await ask('PUT', 'files?path=late', { body: 'new' })).status, 204, 'it is replaced, not opened')
  t.is(await (await ask('GET', 'files/content?path=late')).text(), 'new')
})

function leadsTo(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}
