import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { plansTable } from '../../cli/plans.ts'
import { defaultPlans, parsePlans } from '../../policy/plans.ts'
import { ownFolder } from '../kit/folders.ts'
import { operatorCommand } from '../kit/operator-command.ts'

test('the table has a line for each plan, in the order of the downgrade', t => {
  const [head, ...lines] = plansTable(defaultPlans)
    .split('\n')
    .map(line => line.split(/\s{2,}/))
  t.deepEqual(
    lines.map(([name]) => name),
    [...defaultPlans.keys()],
  )
  t.true(lines.every(line => line.length === head!.length))
  t.deepEqual(lines[7], ['pro-16', '16384 MB', '300', '250 GB', '128', '5', '10', '25', '7 days'])
})

test('what is printed as JSON is a plans file, and an operator’s file is what is printed', async t => {
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
  t.deepEqual([wrong.code, wrong.stderr.trim()], [1, 'Plan "harbour": memoryMb takes a number from 0.'])
})
