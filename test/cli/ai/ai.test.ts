import test, { type ExecutionContext } from 'ava'
import { aiCommand, callTable } from '../../../cli/ai/ai.ts'
import { usageTable } from '../../../cli/ai/usage-table.ts'
import { keysCommand } from '../../../cli/keys.ts'
import { admitCall, settleCall } from '../../../db/ai/ai-calls.ts'
import { recordRefusal, type UsageRow } from '../../../db/ai/ai-usage.ts'
import { newId } from '../../../policy/ids.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { ownFolder } from '../../kit/folders.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

/** The commands of operators on the test database. */
async function operator(t: ExecutionContext) {
  const { db, url } = await database
  const settings = { DATABASE_URL: url, BERTH_DATA: ownFolder(t) }
  const run = (...args: string[]) => operatorHere([aiCommand, keysCommand], settings, ...args)
  return { db, run, json: async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout) }
}

const call = (userId: string, keyId: string | null) => ({
  id: newId(),
  userId,
  keyId,
  tokens: { prompt: 100, answer: 400 },
  slots: 4,
  pacingSeconds: 0,
  budgets: { account: 1_000_000, key: null, platform: null },
})

const day = (changes: Partial<UsageRow>): UsageRow => ({
  user_id: 'u1',
  email: 'ana@example.org',
  key_id: 'k1',
  day: '2030-01-02',
  requests: 2,
  prompt_tokens: 900,
  completion_tokens: 100,
  refusals: {},
  ...changes,
})

const lines = (table: string) => table.split('\n').map(line => line.trim().split(/ {2,}/))

test('usage is summed by day and account, with a total of everything', t => {
  const of = [
    day({ refusals: { rate_limited: 1 } }),
    day({ key_id: null, refusals: { rate_limited: 1, daily_limit_reached: 5 } }),
    day({ user_id: 'u2', email: 'bo@example.org' }),
    day({ day: '2030-01-01' }),
  ]
  t.deepEqual(lines(usageTable(of, null)), [
    ['DAY', 'ACCOUNT', 'REQUESTS', 'PROMPT', 'COMPLETION', 'TOKENS', 'REFUSALS'],
    ['2030-01-02', 'ana@example.org', '4', '1800', '200', '2000', '7'],
    ['2030-01-02', 'bo@example.org', '2', '900', '100', '1000', '0'],
    ['2030-01-01', 'ana@example.org', '2', '900', '100', '1000', '0'],
    ['TOTAL', '8', '3600', '400', '4000', '7'],
  ])
})

test.serial('usage of one account is shown by key, with names', async t => {
  const { db, run, json } = await operator(t)
  const [ana, other] = [await rows(db).user(), await rows(db).user()]
  const { key_id: key } = await json('keys', 'create', '--user', ana.id, '--name', 'chat bot')
  for (const one of [call(ana.id, key), call(ana.id, key), call(ana.id, null), call(other.id, null)]) {
    t.true('granted' in (await admitCall(db, one)))
    await settleCall(db, one, { prompt: 90, completion: 10 })
  }
  await recordRefusal(db, ana.id, key, 'rate_limited')
  const { stdout } = await run('ai', 'usage', '--user', ana.email)
  const [head, ...rest] = lines(stdout.trimEnd())
  t.is(head![1], 'KEY')
  t.deepEqual(
    rest.map(line => line.slice(1)),
    [
      [`${key} chat bot`, '2', '180', '20', '200', '1 rate_limited'],
      ['sessions', '1', '90', '10', '100', '0'],
      ['3', '270', '30', '300', '1'],
    ],
  )
  const views = await json('ai', 'usage', '--days', '90')
  const view = views.find(({ key_id }: UsageRow) => key_id === key)
  t.regex(view.day, /^\d{4}-\d{2}-\d{2}$/)
  t.deepEqual(view, {
    day: view.day,
    user_id: ana.id,
    email: ana.email,
    key_id: key,
    requests: 2,
    prompt_tokens: 180,
    completion_tokens: 20,
    refusals: { rate_limited: 1 },
  })
  const all = await run('ai', 'usage')
  t.regex(all.stdout, new RegExp(`${other.email} +1 +90 +10 +100 +0$`, 'm'))
  t.regex(all.stdout, /\nTOTAL +4 +360 +40 +400 +1\n$/)
  for (const days of ['0', '91', '1.5', 'all'])
    t.is((await run('ai', 'usage', '--days', days)).stderr, '--days must be a whole number from 1 to 90.')
})

test.serial('calls in flight are listed with what they reserve, until they are settled', async t => {
  const { db, run, json } = await operator(t)
  t.is((await run('ai', 'calls')).stdout, 'No calls are in flight.\n')
  const ana = await rows(db).user()
  const one = call(ana.id, null)
  await admitCall(db, one)
  const [view] = await json('ai', 'calls')
  t.like(view, { id: one.id, user_id: ana.id, email: ana.email, key_id: null, tokens: 500 })
  t.is(new Date(view.ends_at).getTime() - new Date(view.started_at).getTime(), 95_000)
  t.regex(
    (await run('ai', 'calls')).stdout,
    new RegExp(`^${ana.email} +session +500 +\\d+ s ago .* in \\d+ s at the latest$`, 'm'),
  )
  await settleCall(db, one, undefined)
  t.deepEqual(await json('ai', 'calls'), [])
})

test('a call of a deleted account is shown by its id', t => {
  const [started_at, ends_at] = [new Date('2030-01-01T12:00:00Z'), new Date('2030-01-01T12:01:35Z')]
  const row = { id: 'c1', user_id: 'u1', email: null, key_id: 'k1', tokens: 5, started_at, ends_at }
  t.deepEqual(lines(callTable([row], new Date('2030-01-01T12:00:15Z')))[1], [
    'u1 (deleted)',
    'k1',
    '5',
    '15 s ago (2030-01-01T12:00:00Z)',
    'in 80 s at the latest',
  ])
})

test.serial('a key may have a daily token limit of its own, which the list shows as a number', async t => {
  const { db, run, json } = await operator(t)
  const ana = await rows(db).user()
  const create = (...args: string[]) => run('keys', 'create', '--user', ana.id, ...args)
  for (const wrong of ['0', '-1', '1.5', 'many', '', '1e6', '1'.repeat(16)])
    t.is(
      (await create('--scopes=ai:chat', `--ai-tokens-per-day=${wrong}`)).stderr,
      '--ai-tokens-per-day must be a whole number from 100.',
    )
  t.deepEqual(await json('keys', 'list', '--user', ana.id), [])
  await create('--name', 'limited', '--scopes', 'ai:chat', '--ai-tokens-per-day', '5000000000')
  await create('--name', 'free')
  t.deepEqual(
    (await json('keys', 'list', '--user', ana.id)).map((key: { ai_tokens_per_day: unknown }) => key.ai_tokens_per_day),
    [5_000_000_000, null],
  )
  const { stdout } = await run('keys', 'list', '--user', ana.id)
  t.regex(stdout, /limited, ai:chat, 5000000000 tokens of the AI gateway a day\n/)
  t.regex(stdout, /free, full access\n/)
})
