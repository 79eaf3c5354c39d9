import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { findApp } from '../../cli/client/client.ts'
import { deploy, deployView } from '../../cli/deploy.ts'
import { appendLog, openDeployment, recordDeploymentStep } from '../../db/deploys/deployments.ts'
import { enqueueOperation } from '../../db/operations/operations.ts'
import { type TestUser, testApi } from '../kit/actors/api.ts'
import { operatorCommand } from '../kit/actors/operator-command.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { ownFolder } from '../kit/folders.ts'
import { appZip } from '../kit/zips.ts'

const api = testApi()
const keys = [
  ...readFileSync('docs/json-output.md', 'utf8')
    .split('`berth deploy --json`')[1]!
    .matchAll(/^`.*`$/gm),
][0]![0].match(/\w+/g)!

function archive(t: ExecutionContext, config: Record<string, string> = {}): string {
  const path = join(ownFolder(t), 'app.zip')
  writeFileSync(path, appZip({}, config))
  return path
}

/** The deployment that a user's upload has created. */
async function deploymentOf(ana: TestUser): Promise<{ id: string; app_id: string }> {
  const mine = api().db('apps').where({ owner_id: ana.id }).select('id')
  const find = () => api().db('deployments').whereIn('app_id', mine.clone()).first('id', 'app_id')
  await comesTrue(async () => Boolean(await find()))
  return find()
}

async function pass(id: string, ...states: ('clone' | 'commit' | 'restarting' | 'success')[]): Promise<void> {
  for (const state of states) await recordDeploymentStep(api().db, id, { state })
}

test.serial('a deploy is followed step by step until it serves', async t => {
  const ana = await api().makeUser()
  const lines: string[] = []
  const target = { baseUrl: api().url, apiKey: ana.key, edgeUrl: null }
  const done = deploy(target, archive(t), { seconds: 60 }, line => void lines.push(line))
  const { id, app_id } = await deploymentOf(ana)
  await pass(id, 'clone', 'commit', 'restarting', 'success')
  const deployed = await done
  t.like(deployed, { app: { id: app_id }, deploymentId: id })
  t.is(lines[0], `Uploaded as ${app_id}; starting it`)
  t.deepEqual(
    lines.slice(1).filter(line => !/done in/.test(line)),
    [
      '  waiting in the queue',
      '  unpacking, and installing dependencies',
      '  placing the files',
      '  starting, waiting for an answer',
      '  serving',
    ],
  )
  t.deepEqual(Object.keys(deployView(deployed, null)), keys)
})

for (const json of [false, true])
  test.serial(
    `a failed deploy prints the reason and the end of its log, and exits with 1${json ? ', in JSON too' : ''}`,
    async t => {
      const ana = await api().makeUser()
      const args = ['deploy', archive(t), '--url', api().url, '--key', ana.key, ...(json ? ['--json'] : [])]
      const running = operatorCommand({}, ...args)
      const { id } = await deploymentOf(ana)
      await pass(id, 'clone')
      await appendLog(api().db, id, 'npm error missing script: build\n')
      await recordDeploymentStep(api().db, id, {
        state: 'error',
        code: 'BUILD_FAILED',
        message: 'npm ended with exit code 1',
      })
      const { code, stdout, stderr } = await running
      t.is(code, 1)
      t.regex(stderr, /\n {2}unpacking, and installing dependencies\n {2}failed\n/)
      if (json) {
        const answer = JSON.parse(stdout)
        t.deepEqual(Object.keys(answer), keys)
        t.like(answer, { ok: false, deployment_id: id, code: 'BUILD_FAILED' })
        t.regex(answer.message, /^BUILD_FAILED: npm ended with exit code 1\nnpm error missing script: build/)
      } else {
        t.regex(stderr, /BUILD_FAILED: npm ended with exit code 1\nnpm error missing script: build\n/)
        t.is(stdout, '')
      }
    },
  )

test.serial('a refusal is printed in JSON too', async t => {
  const ana = await api().makeUser({ plan: 'free' })
  const args = ['deploy', archive(t), '--url', api().url, '--key', ana.key, '--json']
  const { code, stdout } = await operatorCommand({}, ...args)
  t.is(code, 1)
  t.like(JSON.parse(stdout), { ok: false, app_id: null, deployment_id: null, code: 'FEW_MEMORY' })
})

/** Deployments of an application, the newest first. */
const deploymentsOf = (appId: string): Promise<{ id: string; source: string }[]> =>
  api().db('deployments').where({ app_id: appId }).orderBy('created_at', 'desc').select('id', 'source')

test.serial('a new version of an application is a commit, and is followed until it serves itself', async t => {
  const ana = await api().makeUser()
  const shop = await api().makeApp(ana, { subdomain: 'shop', memoryMb: 512 })
  // The version before answers all the time.
  const before = createServer((_, response) => response.end('before')).listen(0, '127.0.0.1')
  t.teardown(() => before.close())
  await once(before, 'listening')
  const edgeUrl = `http://127.0.0.1:${(before.address() as AddressInfo).port}`
  const target = { baseUrl: api().url, apiKey: ana.key, edgeUrl }
  const lines: string[] = []
  let ended = false
  const done = deploy(
    target,
    archive(t, { SUBDOMAIN: 'shop', MEMORY: '512' }),
    { to: 'shop', seconds: 60 },
    line => void lines.push(line),
  ).finally(() => {
    ended = true
  })
  await comesTrue(async () => (await deploymentsOf(shop.id)).length === 2)
  const [{ id } = { id: '' }] = await deploymentsOf(shop.id)
  await pass(id, 'clone', 'commit', 'restarting')
  await comesTrue(() => lines.some(line => line.includes('starting')))
  t.false(ended, 'what answers is the version before')
  // A push meanwhile is another deployment, whose end says nothing of this one.
  const { id: other } = await api().db.transaction(trx =>
    enqueueOperation(trx, { targetId: shop.id, kind: 'deploy', ownerId: ana.id, actor: ana.id }),
  )
  const pushed = await openDeployment(api().db, {
    ...{ appId: shop.id, operationId: other, release: 9, source: 'git', revision: 'a'.repeat(40), segmentId: null },
  })
  await pass(pushed.id, 'success')
  await sleep(2500)
  t.false(ended, 'the newest deployment is another one')
  await pass(id, 'success')
  t.like(await done, { app: { id: shop.id, name: shop.name }, deploymentId: id })
  t.is(lines[0], `Committed to ${shop.id}; deploying it`)
  t.is((await api().db('apps').where({ owner_id: ana.id })).length, 1)
  const failing = deploy(
    target,
    archive(t, { SUBDOMAIN: 'shop', MEMORY: '512' }),
    { to: 'shop', seconds: 60 },
    () => {},
  )
  void failing.catch(() => {})
  await comesTrue(async () => (await deploymentsOf(shop.id)).length === 4)
  const [next] = await deploymentsOf(shop.id)
  await recordDeploymentStep(api().db, next!.id, { state: 'error', code: 'BUILD_FAILED', message: 'no' })
  await t.throwsAsync(failing, { message: /^BUILD_FAILED: no\n(.+\n)*The version before was not replaced\.$/ })
})

test.serial(
  'an application for a new version is found by its id or subdomain, else those of the account are named',
  async t => {
    const [ana, bob] = [await api().makeUser(), await api().makeUser()]
    const [shop, worker] = [await api().makeApp(ana, { subdomain: 'store', memoryMb: 512 }), await api().makeApp(ana)]
    const as = (user: TestUser) => ({ baseUrl: api().url, apiKey: user.key, edgeUrl: null })
    t.deepEqual(await findApp(as(ana), worker.id), { id: worker.id, name: worker.name })
    t.like(await findApp(as(ana), shop.id), { id: shop.id, domain: (await findApp(as(ana), 'store')).domain })
    const unknown = { name: 'Refused', message: 'You have no application with the subdomain stone. Yours: store.' }
    await t.throwsAsync(findApp(as(ana), 'stone'), unknown)
    await t.throwsAsync(findApp(as(bob), 'store'), { message: /Yours: none\.$/ })
    await t.throwsAsync(findApp(as(bob), shop.id), { name: 'Refused', message: /^APP_NOT_FOUND/ })
  },
)

test.serial('a subdomain that is taken is refused with the way to a new version', async t => {
  const ana = await api().makeUser()
  await api().makeApp(ana, { subdomain: 'taken', memoryMb: 512 })
  const path = archive(t, { SUBDOMAIN: 'taken', MEMORY: '512' })
  const target = { baseUrl: api().url, apiKey: ana.key, edgeUrl: null }
  await t.throwsAsync(
    deploy(target, path, { seconds: 60 }, () => {}),
    { message: /^SUBDOMAIN_TAKEN: .+ For a new version of your application add: --app <its subdomain>$/ },
  )
})

test.serial('a wait that is over says what goes on, not that the version before stays', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana, { subdomain: 'slow', memoryMb: 512 })
  const target = { baseUrl: api().url, apiKey: ana.key, edgeUrl: 'http://127.0.0.1:1' }
  const path = archive(t, { SUBDOMAIN: 'slow', MEMORY: '512' })
  await t.throwsAsync(
    deploy(target, path, { to: app.id, seconds: 1 }, () => {}),
    { message: 'The application did not answer within 1 s. The deployment goes on.' },
  )
})
