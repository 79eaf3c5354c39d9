import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { plansTable } from '../../cli/plans.ts'
import { defaultPlans, parsePlans } from '../../policy/accounts/plans.ts'
import { plansOf } from '../../workers/adapters/plans.ts'
import { operatorCommand } from '../kit/actors/operator-command.ts'
import { ownFolder } from '../kit/folders.ts'

test('the table has a line for each plan, in the order of downgrades', t => {
  const [head, ...lines] = plansTable(defaultPlans)
    .split('\n')
    .map(line => line.split(/\s{2,}/))
  t.deepEqual(
    lines.map(([name]) => name),
    [...defaultPlans.keys()],
  )
  t.true(lines.every(line => line.length === head!.length))
  t.deepEqual(lines[7], ['pro-16', '16384 MB', '300', '250 GB', '128', '5', '10', '25', '7 days', '400', '2000000'])
})

test('the JSON output is a valid plans file, and a plans file of the operator is what is printed', async t => {
  const folder = ownFolder(t)
  const settings = { DATABASE_URL: 'postgres://127.0.0.1:9/none', BERTH_DATA: folder }
  const built = await operatorCommand(settings, 'plans', '--json')
  t.deepEqual([...parsePlans(built.stdout)], [...defaultPlans])
  const PLANS_FILE = join(folder, 'plans.json')
  const { free } = JSON.parse(built.stdout)
  writeFileSync(PLANS_FILE, JSON.stringify({ free, harbour: { ...free, memoryMb: 4711 } }))
  const own = await operatorCommand({ ...settings, PLANS_FILE }, 'plans')
  t.regex(own.stdout, /^harbour {2}4711 MB/m)
  t.is(own.stdout.trim().split('\n').length, 3)
  writeFileSync(PLANS_FILE, JSON.stringify({ free, harbour: { ...free, memoryMb: -1 } }))
  const wrong = await operatorCommand({ ...settings, PLANS_FILE }, 'plans')
  t.is(wrong.code, 1)
  t.is(
    wrong.stderr.trim(),
    `The setting PLANS_FILE names ${PLANS_FILE}. Plan "harbour": memoryMb must be a whole number from 0 to 2147483647.`,
  )
})

test('an invalid plans file is refused with its name and the reason', t => {
  const folder = ownFolder(t)
  const plansFile = join(folder, 'plans.json')
  const free = defaultPlans.get('free')!
  const refusal = (written: unknown): string => {
    writeFileSync(plansFile, typeof written === 'string' ? written : JSON.stringify(written))
    return t.throws(() => plansOf({ plansFile }))?.message ?? ''
  }
  for (const [written, words] of [
    ['', /It is not JSON/],
    ['{"free":', /It is not JSON/],
    ['[]', /not a JSON object/],
    ['null', /not a JSON object/],
    ['{}', /no plan "free"/],
    ['{"free":null}', /Plan "free" is not an object/],
    ['{"free":[]}', /Plan "free" is not an object/],
    [{ free: {} }, /Plan "free": memoryMb must be a whole number/],
    [{ free: { ...free, memoryMb: '1' } }, /"free": memoryMb/],
    [{ free: { ...free, requestsPerMinute: 1.5 } }, /"free": requestsPerMinute/],
    [{ free: { ...free, aiTokensPerDay: 1 } }, /"free": aiContextTokens must be at least 1/],
    [{ free: { ...free, blobGb: 1e12 } }, /"free": blobGb/],
    [{ free: { ...free, workspaces: -1 } }, /"free": workspaces/],
    [{ free: { ...free, memoryMB: 1 } }, /no figure "memoryMB"\. Figures: memoryMb, /],
    [{ free, 'Gold\n': free }, /Plan "Gold\\n": a name must begin with a letter/],
    [{ free, 1: free }, /Plan "1"/],
    [`{"__proto__":${JSON.stringify(free)},"free":${JSON.stringify(free)}}`, /Plan "__proto__"/],
  ] as const) {
    const message = refusal(written)
    t.regex(message, words)
    t.true(message.startsWith(`The setting PLANS_FILE names ${plansFile}. `), message)
  }
  t.regex(t.throws(() => plansOf({ plansFile: join(folder, 'none') }))?.message ?? '', /none\. ENOENT/)
  t.regex(t.throws(() => plansOf({ plansFile: folder }))?.message ?? '', /EISDIR/)
  const pro = defaultPlans.get('pro-12')!
  const older = (plan: typeof free) =>
    Object.fromEntries(Object.entries(plan).filter(([figure]) => !/^(history|s3|ai)/.test(figure)))
  const table = { harbour: { ...free, memoryMb: 1 }, 'pro-x': older(pro), free: older(free) }
  writeFileSync(plansFile, `\ufeff${JSON.stringify(table)}`)
  t.deepEqual(
    [...plansOf({ plansFile })],
    [
      ['harbour', { ...free, memoryMb: 1 }],
      ['pro-x', pro],
      ['free', free],
    ],
  )
})
