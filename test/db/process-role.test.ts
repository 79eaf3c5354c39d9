import { randomBytes } from 'node:crypto'
import test from 'ava'
import { loginFinding } from '../../cli/doctor/findings.ts'
import { recordAct } from '../../cli/ops/operator.ts'
import { latestAudit } from '../../db/audit.ts'
import { type Db, migrate, openDatabase } from '../../db/database.ts'
import { Notifications } from '../../db/notifications.ts'
import { allowProcesses, currentRole } from '../../db/process-role.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const role = `berth_test_${randomBytes(4).toString('hex')}`

const addressOf = (url: string, password: string): string => {
  const address = new URL(url)
  Object.assign(address, { username: role, password })
  return address.href
}

/** A connection with the login of a process, and who owns the schema. */
async function asProcess(t: { teardown(end: () => Promise<void>): void }, password = "it's?") {
  const { db: owner, url } = await database
  await allowProcesses(owner, addressOf(url, password))
  const db = openDatabase({ url: addressOf(url, password), pool: 2 })
  t.teardown(() => db.destroy())
  return { owner, db, url: addressOf(url, password) }
}

const refusals: [what: string, statement: string, said: RegExp][] = [
  ['take the trigger of the audit record away', 'drop trigger audit_is_only_added_to on audit', /must be owner/],
  ['put it to sleep', 'alter table audit disable trigger all', /must be owner|permission denied/],
  ['go around triggers', "set session_replication_role = 'replica'", /permission denied/],
  [
    'make the trigger do nothing',
    'create or replace function audit_is_only_added_to() returns trigger language plpgsql as $$ begin return new; end $$',
    /permission denied|must be owner/,
  ],
  ['empty a table at once', 'truncate audit', /permission denied/],
  ['run a program of the server', "copy users from program 'id'", /permission denied|must be superuser/],
  ['read a file of the server', "select pg_read_file('/etc/passwd')", /permission denied/],
  ['make a table', 'create table mine (id int)', /permission denied/],
  ['make a login', 'create role more superuser login', /permission denied|must be superuser/],
  ['make itself more', `alter role ${role} superuser`, /permission denied|must be superuser/],
  ['act as the owner', 'set role berth', /permission denied/],
  ['say what was migrated', 'delete from knex_migrations', /permission denied/],
]

for (const [what, statement, said] of refusals) {
  test.serial(`the login of the processes cannot ${what}`, async t => {
    const { db } = await asProcess(t)
    const error = await t.throwsAsync(db.raw(statement.replaceAll('?', '\\?')))
    t.regex(error?.message ?? '', said)
  })
}

test.serial(
  'the role of the processes can use what they need: rows, sequences, locks, notifications, also of later tables',
  async t => {
    const { owner, db, url } = await asProcess(t)
    const make = rows(db)
    await make.host('h1')
    const { id } = await make.user()
    await make.app(id)
    await recordAct(db, { action: 'test', accountId: id })
    t.is((await latestAudit(db, 1))[0]?.action, 'test')
    await t.throwsAsync(db('audit').update({ action: 'other' }), { message: /only added to/ })
    t.true((await db.raw('select pg_try_advisory_lock(1) as mine')).rows[0].mine)

    const notifications = new Notifications(url, ['apps'])
    t.teardown(() => notifications.close())
    let heard = 0
    notifications.on('notify', () => heard++)
    await notifications.open()
    await comesTrue(async () => {
      await db.raw("select pg_notify('apps', 'x')")
      return heard > 0
    })

    await owner.raw('create table later (id bigint generated always as identity, n serial)')
    await db('later').insert({})
    t.is((await db('later')).length, 1)
    await owner.raw('drop table later')
  },
)

test.serial('a new password replaces the old one, and a single role for everything stays as it is', async t => {
  const { owner } = await asProcess(t)
  const { url } = await database
  await allowProcesses(owner, url)
  const again = await asProcess(t, 'another')
  // The last of these tests: logins belong to the server, and would stay when the database goes.
  t.teardown(async () => {
    await owner.raw('drop owned by ??', [role])
    await owner.raw('drop role ??', [role])
  })
  t.deepEqual(await currentRole(again.db), { name: role, superuser: false, owner: false })
  const before = openDatabase({ url: addressOf(url, "it's?"), pool: 1 })
  const refused = await t.throwsAsync(before.raw('select 1'))
  t.regex(String(refused?.cause), /password authentication failed/)
  await before.destroy()
  await t.notThrowsAsync(migrate(owner))
})

test('doctor reports a role with too many rights', async t => {
  const { db } = await database
  const found = loginFinding(await currentRole(db as Db))
  t.regex(found.state, /IS A SUPERUSER: .* controls the whole server/)
  t.regex(found.remedy ?? '', /DATABASE_OWNER_URL/)
  t.regex(
    loginFinding({ name: 'x', superuser: false, owner: true }).state,
    /OWNS THE SCHEMA: .* can change and drop every table of Berth/,
  )
  t.deepEqual(loginFinding({ name: 'berth_process', superuser: false, owner: false }), {
    name: 'database login',
    state: 'berth_process: changes rows only',
  })
})
