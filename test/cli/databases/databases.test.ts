import test, { type ExecutionContext } from 'ava'
import { auditCommand } from '../../../cli/audit.ts'
import { databasesCommand } from '../../../cli/databases/databases.ts'
import { loadInstallation } from '../../../cli/installation/installation.ts'
import { changeVariables, readVariables } from '../../../db/apps/app-variables.ts'
import { databasePasswordKey } from '../../../db/databases/authorities.ts'
import { removeDatabase } from '../../../db/databases/database-creation.ts'
import * as databases from '../../../db/databases/databases.ts'
import { recordHostLeft } from '../../../db/hosts/hosts.ts'
import * as operations from '../../../db/operations/operations.ts'
import type { AppConfigFile } from '../../../policy/apps/app-config.ts'
import { variableLimits } from '../../../policy/apps/variables.ts'
import { databasePassword } from '../../../policy/databases/passwords.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { ownFolder } from '../../kit/folders.ts'
import { makeDatabase } from '../../kit/rows/databases.ts'
import { waitingForLocks } from '../../kit/rows/held-locks.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
let hosts = 0

/** An account with a database that runs, and an application, on a host of their own. */
async function scene(t: ExecutionContext, app: Partial<AppConfigFile> = {}) {
  const { db, url } = await database
  const make = rows(db)
  await db('hosts').update({ draining: true })
  const hostId = `h${++hosts}`
  await make.databaseHost(hostId)
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const { config } = loadInstallation({ ...settings, BERTH_MASTER_KEY: '00'.repeat(32) })
  const keys = config.sealKeys
  const ana = await make.user()
  const row = await makeDatabase(db, keys, ana.id, { name: 'My cache-2' })
  const { app: shop } = await make.app(ana.id, app)
  const run = (...args: string[]) =>
    operatorHere([databasesCommand, auditCommand], settings, ...(args[0] === 'audit' ? [] : ['databases']), ...args)
  const json = async (...args: string[]) => {
    const { stdout, stderr } = await run(...args, '--json')
    t.is(stderr, '', args.join(' '))
    return JSON.parse(stdout)
  }
  const variables = async () => Object.fromEntries((await readVariables(db, keys, shop.id)).values)
  const password = async (generation: number) =>
    databasePassword(await databasePasswordKey(db, keys), row.id, generation)
  const set = (name: string, value: string) =>
    changeVariables(db, keys, shop.id, { touches: () => false, apply: all => new Map([...all, [name, value]]) })
  return { db, make, hostId, ana, row, shop, config, run, json, variables, password, set }
}

test.serial('databases of all accounts are listed, newest first, and those of an account or a host', async t => {
  const one = await scene(t)
  const { db, make, row, hostId, ana, run, json } = await scene(t)
  const { database: creating } = await make.database(ana.id, { name: 'orders', accepting: true })
  const all = await json('list')
  t.deepEqual(
    all.slice(0, 3).map(({ id }: { id: string }) => id),
    [creating.id, row.id, one.row.id],
  )
  t.deepEqual(all, await json())
  t.like(all[1], { owner_email: ana.email, engine: 'redis', version: '8', stand_in: false, memory_mb: 512 })
  t.like(all[1], { host_id: hostId, port: row.port, state: 'running', status: 'running', operation: null })
  t.is(all[1].certificate_ends_at, '2100-01-01T00:00:00.000Z')
  t.like(all[0], { state: 'busy', certificate_ends_at: null })
  t.like(all[0].operation, { kind: 'create', state: 'accepting', step: null })
  const ids = (list: { id: string }[]) => list.map(({ id }) => id)
  t.deepEqual(ids(await json('list', '--user', ana.email)), [creating.id, row.id])
  t.deepEqual(ids(await json('list', '--host', one.hostId)), [one.row.id])
  t.deepEqual(ids(await json('list', '--limit', '1')), [creating.id])
  t.regex((await run('list', '--host', 'h99')).stderr, /no host "h99".*h1/)
  t.regex((await run('list', '--user', 'nobody@example.org')).stderr, /no account/)

  await db('databases').where({ id: row.id }).update({ image: 'berth/mongo-stand-in:8', engine: 'mongo' })
  await databases.recordDatabaseStopped(db, row.id, { code: 1, oom: false, at: new Date() })
  await db('databases').where({ id: row.id }).update({ restarts: 5 })
  const { stdout } = await run('list', '--user', ana.id)
  t.regex(stdout, /^ID +NAME +OWNER +ENGINE +MEMORY +HOST +PORT +CERTIFICATE +STATE\n/)
  const line = `^${row.id} +My cache-2 +${ana.email} +mongo 8 \\(stand-in\\) +512 MB +${hostId} +${row.port} +until 2100-01-01 +STAYS DOWN`
  t.regex(stdout, new RegExp(line, 'm'))
  t.regex(stdout, / none yet +create is not confirmed yet/)
})

test.serial('the operation that runs is shown before those that wait', async t => {
  const { db, row, json, run } = await scene(t)
  const target = { targetType: 'database', targetId: row.id, ownerId: row.owner_id, actor: row.owner_id } as const
  const { id } = await operations.enqueueOperation(db, { ...target, kind: 'stop' })
  t.like((await json('list'))[0].operation, { id, kind: 'stop', state: 'queued' })
  await operations.claimNextOperation(db, { type: 'database', id: row.id })
  await operations.recordStep(db, id, 'stopping the engine')
  await operations.enqueueOperation(db, { ...target, kind: 'start' })
  await operations.enqueueDeletion(db, { ...target, kind: 'delete' })
  t.like((await json('list'))[0].operation, { id, state: 'running', step: 'stopping the engine' })
  await operations.finishOperation(db, id, { state: 'success' })
  t.like((await json('list'))[0].operation, { kind: 'delete', state: 'queued' })
  const { stdout } = await run('explain', row.id)
  t.regex(stdout, /Why its operation does not proceed:\n {2}It is number 1 in the queue of its database\./)
  t.regex(stdout, /Temporal does not answer/)
})

test.serial('a database is explained while its host does not answer, and says why nothing can be read', async t => {
  const { db, row, hostId, run, json } = await scene(t)
  await recordHostLeft(db, hostId)
  await db('hosts').where({ id: hostId }).update({ database_images: '{}' })
  const { stdout, stderr } = await run('explain', row.id.slice(0, 12))
  t.is(stderr, '')
  t.regex(stdout, /^database My cache-2 of .*\n {2}UNREACHABLE: HOST h\d+ IS SILENT; it was running/)
  t.regex(stdout, new RegExp(`-> .*berth hosts forget ${hostId}`))
  t.regex(stdout, /image +berth\/redis:8, NOT REPORTED/)
  t.regex(stdout, new RegExp(`volume +${row.id}-1, generation 1`))
  t.regex(stdout, /Its last operations, newest first:\n {2}\w{8} create, success/)
  t.regex(stdout, /The end of its log:\n {2}not available: its host does not answer \(CLUSTER_UNAVAILABLE\)/)
  const story = await json('explain', row.id)
  t.like(story, { log_tail: null, container: null, bind: null, volume_generation: 1, password_generation: 1 })
  t.is(story.problems.length, 1)
  t.false(JSON.stringify(story).includes('certificate of'), 'no certificate')
})

test.serial('a deleted database, an unknown one and one that is not unique are distinguished', async t => {
  const { db, row, run } = await scene(t)
  await removeDatabase(db, row.id)
  t.regex((await run('explain', row.id)).stderr, new RegExp(`was deleted.* berth ops list --database ${row.id}`))
  t.regex((await run('explain', '0'.repeat(32))).stderr, /There is no database "0+"\. See: berth databases list/)
  t.regex((await run('explain', 'my-database')).stderr, /There is no database/)
  const others = await scene(t)
  await db('databases')
    .where({ id: others.row.id })
    .update({ id: `${'e'.repeat(31)}1` })
  await db('databases')
    .where({ id: (await scene(t)).row.id })
    .update({ id: `${'e'.repeat(31)}2` })
  t.regex((await run('explain', 'eeee')).stderr, /"eeee" matches several: e+1, e+2/)
})

test.serial('attaching writes the URL that works inside applications, and prints no part of it', async t => {
  const { db, row, shop, ana, run, json, variables, password, set } = await scene(t)
  await set('OTHER', 'stays')
  const { variables_version: before } = await db('apps').where({ id: shop.id }).first()
  const { stdout, stderr, code } = await run('attach', row.id.slice(0, 10), shop.id.slice(0, 10))
  t.is(code, 0, stderr)
  t.is(
    stdout,
    'MY_CACHE_2_URL of application shop has the URL of database My cache-2.\nIt takes effect at the next start or restart of the application; nothing was restarted.\n',
  )
  const url = (generation: string) => `rediss://default:${generation}@db-${row.id}.apps.localhost:${row.port}`
  t.deepEqual(await variables(), { MY_CACHE_2_URL: url(await password(1)), OTHER: 'stays' })
  t.is((await db('apps').where({ id: shop.id }).first()).variables_version, before + 1)
  t.is(await db('operations').where({ target_id: shop.id }).whereNot({ kind: 'create' }).first(), undefined)

  await db('databases').where({ id: row.id }).update({ password_generation: 2 })
  const again = await json('attach', row.id, shop.id)
  t.deepEqual(again, { database: row.id, app: shop.id, variable: 'MY_CACHE_2_URL', replaced: true, note: null })
  t.is((await variables()).MY_CACHE_2_URL, url(await password(2)), 'a URL of this database is replaced')
  const { stdout: acts } = await run('audit', '--user', ana.email)
  t.is(acts.match(/databases\.attach/g)?.length, 2, acts)
})

test.serial('the URL has the domain of the database’s host; one in a former domain of it is replaced', async t => {
  const { db, row, shop, hostId, run, json, variables, password, set } = await scene(t)
  await set('MY_CACHE_2_URL', `rediss://default:old@db-${row.id}.apps.localhost:${row.port}`)
  const place = { database_domain: 'two.test', database_addresses: ['192.0.2.2'] }
  await db('hosts').where({ id: hostId }).update(place)
  t.like(await json('attach', row.id, shop.id), { replaced: true, note: null })
  const url = `rediss://default:${await password(1)}@db-${row.id}.two.test:${row.port}`
  t.is((await variables()).MY_CACHE_2_URL, url)
  t.regex((await run('explain', row.id)).stdout, new RegExp(`address +db-${row.id}\\.two\\.test\n`))
})

test.serial('a password that is replaced while a database is attached is the one that is stored', async t => {
  const { db, row, shop, json, variables, password } = await scene(t)
  const rotation = await db.transaction()
  t.teardown(() => rotation.isCompleted() || rotation.rollback())
  await rotation('databases').where({ id: row.id }).update({ password_generation: 2 })
  const attached = json('attach', row.id, shop.id)
  await comesTrue(async () => (await waitingForLocks(db)) > 0)
  await rotation.commit()
  t.like(await attached, { variable: 'MY_CACHE_2_URL' })
  t.true((await variables()).MY_CACHE_2_URL!.includes(await password(2)))
})

test.serial('a rotation that begins while a database is attached is seen', async t => {
  const { db, row, shop, run, variables } = await scene(t)
  const beginning = await db.transaction()
  t.teardown(() => beginning.isCompleted() || beginning.rollback())
  await beginning('databases').where({ id: row.id }).update({ password_generation: 2 })
  const target = { targetType: 'database', targetId: row.id, ownerId: row.owner_id, actor: row.owner_id } as const
  await operations.enqueueOperation(beginning, { ...target, kind: 'rotate' })
  const attached = run('attach', row.id, shop.id)
  await comesTrue(async () => (await waitingForLocks(db)) > 0)
  await beginning.commit()
  t.regex((await attached).stderr, /is being set: operation .* \(rotate\)/)
  t.deepEqual(await variables(), {})
})

test.serial('the variable can be named; what it has is replaced only with --force', async t => {
  const { db, row, shop, run, json, variables, password, set } = await scene(t)
  await databases.renameDatabase(db, row.id, '1st cache')
  t.is((await json('attach', row.id, shop.id)).variable, '_1ST_CACHE_URL')
  t.is((await json('attach', row.id, shop.id, '--name', 'CACHE')).variable, 'CACHE_URL')
  t.is((await json('attach', row.id, shop.id, '--name', 'STORE_URL')).variable, 'STORE_URL')
  for (const name of ['1A', 'A-B', 'A B', 'É', ''])
    t.regex((await run('attach', row.id, shop.id, '--name', name)).stderr, /--name must consist of/, name)
  await set('CACHE_URL', 'rediss://default:secret@elsewhere.example:6379')
  const refused = await run('attach', row.id, shop.id, '--name', 'CACHE')
  t.regex(refused.stderr, /already has a variable CACHE_URL with another value.*--force/)
  t.notRegex(refused.stderr, /secret|elsewhere/)
  t.regex((await variables()).CACHE_URL!, /elsewhere/)
  t.regex((await run('attach', row.id, shop.id, '--name', 'CACHE', '--force')).stdout, /now has the URL/)
  t.true((await variables()).CACHE_URL!.includes(await password(1)))
})

test.serial('a database is attached to what its owner has, and what can use it', async t => {
  const { db, make, row, shop, run, variables } = await scene(t)
  const bea = await make.user()
  const { app: foreign } = await make.app(bea.id)
  t.regex((await run('attach', row.id, foreign.id)).stderr, /belong to different accounts/)
  t.regex((await run('attach', row.id, 'f'.repeat(24))).stderr, /no application "f+"/)
  const site = await scene(t, { language: 'static' })
  t.regex((await run('attach', site.row.id, site.shop.id)).stderr, /static/i)

  const target = { targetType: 'database', targetId: row.id, ownerId: row.owner_id, actor: row.owner_id } as const
  const snapshot = await operations.enqueueOperation(db, { ...target, kind: 'snapshot' })
  await db('operations').where({ id: snapshot.id }).update({ state: 'running' })
  const { id } = await operations.enqueueOperation(db, { ...target, kind: 'rotate' })
  t.regex((await run('attach', row.id, shop.id)).stderr, new RegExp(`operation ${id.slice(0, 8)} \\(rotate\\).*again`))
  await db('operations').where({ id }).update({ state: 'success', finished_at: db.fn.now() })
  await operations.enqueueDeletion(db, { ...target, kind: 'delete' })
  t.regex((await run('attach', row.id, shop.id)).stderr, /is being deleted/)
  await db('databases').where({ id: row.id }).update({ desired_state: 'running', lost_with: 'h9' })
  t.regex((await run('attach', row.id, shop.id)).stderr, /lost with host h9/)
  t.deepEqual(await variables(), {})
})

test.serial('the limits of variables hold, and a refused attachment is in no audit record', async t => {
  const { db, row, shop, config, run, variables } = await scene(t)
  const full = new Map(Array.from({ length: variableLimits.max }, (_, n) => [`V${n}`, 'x']))
  await changeVariables(db, config.sealKeys, shop.id, { touches: () => true, apply: () => full })
  t.regex((await run('attach', row.id, shop.id)).stderr, /256/)
  t.is(Object.keys(await variables()).length, variableLimits.max)
  t.is(await db('audit').where({ action: 'databases.attach', resource: shop.id }).first(), undefined)
})

test.serial('on another host the URL has an address that leads there, with what else it needs', async t => {
  const { db, make, row, shop, json, variables, run } = await scene(t)
  await make.host('apart', { address: '192.0.2.7' })
  await db('apps').where({ id: shop.id }).update({ host_id: 'apart' })
  await db('hosts').where({ id: row.host_id }).update({ address: '192.0.2.8' })
  const { note } = await json('attach', row.id, shop.id)
  t.regex(note, new RegExp(`different hosts \\(apart and ${row.host_id}\\).*DATABASE_BIND`))
  t.regex(
    (await variables()).MY_CACHE_2_URL!,
    new RegExp(`@(192\\.0\\.2\\.8|db-${row.id}\\.apps\\.localhost):${row.port}$`),
  )
  t.true((await run('attach', row.id, shop.id)).stdout.includes(note))

  await db('hosts')
    .where({ id: row.host_id })
    .update({ database_domain: 'two.invalid', database_addresses: ['203.0.113.2'] })
  t.regex((await json('attach', row.id, shop.id, '--name', 'OTHER')).note, /203\.0\.113\.2 must resolve to host/)
  t.regex((await variables()).OTHER_URL!, new RegExp(`@203\\.0\\.113\\.2:${row.port}$`))
})
