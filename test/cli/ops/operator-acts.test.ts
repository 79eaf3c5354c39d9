import test, { type ExecutionContext } from 'ava'
import { authenticator } from '../../../api/pipeline/authenticate.ts'
import { auditCommand } from '../../../cli/audit.ts'
import { hostsCommand } from '../../../cli/hosts/hosts.ts'
import { keysCommand } from '../../../cli/keys.ts'
import { mailCommand } from '../../../cli/mail.ts'
import { usersCommand } from '../../../cli/users.ts'
import { queueMail } from '../../../db/accounts/mails.ts'
import type { Db } from '../../../db/database.ts'
import { defaultPlans } from '../../../policy/accounts/plans.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const masterKey = '00'.repeat(32)
const verbs = [auditCommand, hostsCommand, keysCommand, mailCommand, usersCommand]

async function operator(t: ExecutionContext) {
  const { db, url } = await database
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t), BERTH_MASTER_KEY: masterKey, SUDO_USER: 'noor' }
  const run = (...args: string[]) => operatorHere(verbs, settings, ...args)
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)
  return { db, run, json }
}

/** The account and rights of a credential, in a process that has just started. */
async function rightsOf(db: Db, credential: string): Promise<unknown> {
  const headers = { authorization: credential }
  const request = { headers, rawHeaders: ['Authorization', credential] } as never
  const caller = await authenticator({ db, masterKey, plans: defaultPlans })(request, '').catch(() => null)
  return caller && [caller.user.id, caller.kind, caller.scopes, caller.resources, caller.prefixes, caller.planName]
}

test.serial('every act of an operator is in the audit record, with the operator and the time', async t => {
  const { db, run, json } = await operator(t)
  const create = ['users', 'create', '--email', 'Ana@Example.org', '--name', 'Ana', '--plan', 'hobby-1']
  const before = new Date(Date.now() - 1000)
  const ana = await json(...create)
  t.deepEqual(Object.keys(ana), ['user_id', 'key_id', 'api_key', 'session_token'])
  t.deepEqual(await rightsOf(db, ana.api_key), [ana.user_id, 'key', null, null, null, 'hobby-1'])
  t.deepEqual(await rightsOf(db, ana.session_token), [ana.user_id, 'session', null, null, null, 'hobby-1'])
  const limited = await json('keys', 'create', '--user', ana.user_id, '--scopes', 'blob:read', '--prefixes', 'a/b,c/')
  t.deepEqual(await rightsOf(db, limited.api_key), [ana.user_id, 'key', ['blob:read'], null, ['a/b/', 'c/'], 'hobby-1'])
  t.regex((await run('keys', 'list', '--user', ana.user_id)).stdout, /blob:read, only below a\/b\/,c\//)

  t.is((await run('keys', 'revoke', limited.key_id)).code, 0)
  t.is(await rightsOf(db, limited.api_key), null)
  t.is((await run('users', 'set-plan', 'ANA@example.org', '--plan', 'pro-12', '--until', '2100-01-31')).code, 0)
  t.is((await run('users', 'set-locale', ana.user_id, 'ja-JP')).code, 0)
  t.like(await db('users').where({ id: ana.user_id }).first(), { locale: 'ja-JP', locale_open: false })
  t.is((await run('users', 'block', ana.user_id)).code, 0)
  t.is(await rightsOf(db, ana.api_key), null)
  t.like((await json('users', 'list'))[0], { id: ana.user_id, email: 'ana@example.org', plan: 'pro-12' })
  t.regex((await run('users', 'list')).stdout, /ana@example\.org +Ana +pro-12 +2100-01-31T00:00 +blocked/)
  t.is((await run('users', 'unblock', ana.user_id)).code, 0)
  t.is(((await rightsOf(db, ana.api_key)) as string[])[5], 'pro-12')
  await rows(db).host('h1')
  t.is((await run('hosts', 'drain', 'h1')).code, 0)
  await queueMail(db, {
    userId: ana.user_id,
    template: 'plan-ended',
    fields: { plan: 'pro-12', databases: '', databaseCount: 0 },
  })
  const { id: mail } = await db('mails').first()
  t.is((await run('mail', 'retry', mail.slice(0, 8))).code, 0)
  const invoice = ['--number', 'R-17', '--amount', 'EUR 1', '--due', '2030-01-31', '--url', 'https://pay.example.org']
  for (let n = 0; n < 2; n++) t.is((await run('mail', 'invoice', '--user', ana.user_id, ...invoice)).code, 0)

  const record: Record<string, unknown>[] = await json('audit')
  const acts = record.reverse().map(({ actor, account_id, action, resource }) => [actor, account_id, action, resource])
  const [who] = acts[0] as string[]
  t.regex(who!, /^operator:./)
  const of = (action: string, resource: string | null = null) => [who, ana.user_id, action, resource]
  t.deepEqual(acts, [
    of('users.create'),
    of('keys.create', limited.key_id),
    of('keys.revoke', limited.key_id),
    of('users.set-plan'),
    of('users.set-locale'),
    of('users.block'),
    of('users.unblock'),
    [who, null, 'hosts.drain', 'h1'],
    [who, null, 'mail.retry', mail],
    of('mail.invoice', 'R-17'),
  ])
  for (const { at, result } of record) t.true(result === 'success' && new Date(String(at)) > before)
})

test.serial('a refused act changes nothing and is not recorded', async t => {
  const { db, run } = await operator(t)
  const count = async () => [(await db('users')).length, (await db('api_keys')).length, (await db('audit')).length]
  const user = await rows(db).user()
  const before = await count()
  const account = (email: string, name = 'Ana', plan = 'free') => [
    'users',
    'create',
    '--email',
    email,
    '--name',
    name,
    '--plan',
    plan,
  ]
  for (const [command, words] of [
    [account(user.email.toUpperCase()), /There is already an account with the address/],
    [account('nobody'), /--email must be an address/],
    [account('a@example.org', 'Ana  <b>'), /--name must be 1 to 24 letters/],
    [account('a@example.org', 'Ana', 'gold'), /There is no plan "gold"\. Plans: free, hobby-1/],
    [[...account('a@example.org'), '--locale', 'xx-XX'], /There is no language "xx-XX"\. Languages: pt-BR, en-US/],
    [['users', 'set-locale', user.id, 'tlh'], /There is no language "tlh"/],
    [['users', 'block', 'nobody@example.org'], /There is no account "nobody@example.org"/],
    [['users', 'set-plan', user.id, '--plan', 'pro-12', '--until', 'soon'], /--until must be a date/],
    [['keys', 'create', '--user', user.id, '--scopes', 'apps:all'], /Unknown scope: apps:all/],
    [['keys', 'create', '--user', user.id, '--resources', 'shop'], /--resources must be ids/],
    [['keys', 'create', '--user', user.id, '--prefixes', '../x'], /--prefixes must be folders/],
    [['keys', 'create', '--user', user.id, '--name', 'a\u202eb'], /--name must be one line/],
    [['keys', 'revoke', 'f'.repeat(32)], /There is no active key/],
    [['hosts', 'drain', 'h9'], /There is no host "h9"/],
  ] as const) {
    const { code, stdout, stderr } = await run(...command)
    t.deepEqual([code, stdout], [1, ''], command.join(' '))
    t.regex(stderr, words)
  }
  t.deepEqual(await count(), before)
})
