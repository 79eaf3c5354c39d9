import { readFileSync } from 'node:fs'
import test from 'ava'
import { findingsView } from '../../cli/doctor/findings.ts'
import { platformInfo } from '../../cli/info.ts'
import { loadInstallation } from '../../cli/installation/installation.ts'
import { opsCommand } from '../../cli/ops.ts'
import { transaction } from '../../db/database.ts'
import { queueDeploy } from '../../db/deploys/deploys.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { ownFolder } from '../kit/folders.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const sections = readFileSync('docs/json-output.md', 'utf8').split('\n## ').slice(1)

/** The keys of the first line of keys in the section of a command, or of a row of its table. */
function documented(command: string, row?: string): string[] {
  const section = sections.find(text => text.startsWith(`\`${command} --json\``)) ?? ''
  const line = section
    .split('\n')
    .slice(1)
    .find(text => (row ? text.startsWith(`| \`${row}\``) : text.startsWith('`') && text.split('`').length > 4))
  const keys = [...(line ?? '').matchAll(/`(\w+)`/g)].map(([, key]) => key!)
  return row ? keys.slice(1) : keys
}

async function shop() {
  const { db, url } = await database
  const make = rows(db)
  await make.host('h1')
  const ana = await make.user()
  const { app } = await make.app(ana.id)
  const queued = await transaction(db, trx =>
    queueDeploy(trx, {
      appId: app.id,
      ownerId: ana.id,
      actor: ana.id,
      trigger: 'webhook',
      revision: 'a'.repeat(40),
      branch: 'main',
      cloneUrl: 'http://git.example/shop.git',
    }),
  )
  return { db, url, operationId: queued!.operationId }
}

test.serial('info prints the documented keys', async t => {
  const { db, url } = await shop()
  const env = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, BERTH_MASTER_KEY: '00'.repeat(32) }
  const info = await platformInfo(loadInstallation(env), db)
  t.deepEqual(Object.keys(info), documented('berth info'))
})

test('the doctor prints the documented keys', t => {
  t.deepEqual(Object.keys(findingsView([])), documented('berth doctor'))
})

test.serial('the operations print the documented keys, and no whole row of a table', async t => {
  const { url, operationId } = await shop()
  const settings = { BERTH_DATA: ownFolder(t), DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const ops = async (...args: string[]) => {
    const { stdout, stderr } = await operatorHere([opsCommand], settings, 'ops', ...args, '--json')
    t.is(stderr, '')
    return JSON.parse(stdout)
  }
  const list = await ops()
  t.deepEqual(list, await ops('list'))
  for (const entry of list) t.deepEqual(Object.keys(entry), documented('berth ops'))
  const story = await ops('explain', operationId)
  const all = documented('berth ops explain')
  t.deepEqual(Object.keys(story), all)
  t.deepEqual(Object.keys(await ops('show', operationId)), all.slice(0, -2))
  for (const key of ['operation', 'deployment', 'lane'])
    t.deepEqual(Object.keys(story[key]), documented('berth ops explain', key), key)
  t.deepEqual(
    [...Object.keys(story.app), ...Object.keys(story.host)],
    ['id', 'name', 'status', 'owner_id', 'id', 'reachable', 'last_seen_at', 'tries'],
  )
  t.is(story.operation.id, operationId)
  t.is(story.before[0].kind, 'create')
  t.regex(story.verdict, /^WAITING/)
})
