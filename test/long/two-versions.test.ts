import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import test from 'ava'
import { checkout } from '../kit/command.ts'
import { ownFolder } from '../kit/folders.ts'
import { type Entry, startEntry } from '../kit/platform/entry.ts'
import { type TestPlatform, testPlatform } from '../kit/platform/platform.ts'
import { workflowBundle } from '../kit/platform/workflow-bundle.ts'
import { configOf, nodeProgram } from '../kit/programs.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { zipOf } from '../kit/zips.ts'

const run = promisify(execFile)

/** The version that is replaced: a commit of this repository. By default the one before the last two migrations came. */
const { OLDER_VERSION = '5e0629ab' } = process.env

const processes: Entry[] = []
test.serial.after.always('end the processes', async () => {
  for (const entry of processes) await entry.kill('SIGKILL')
})

const database = testDatabase()
const started = testPlatform({ hosts: {}, worker: false, api: false, database: () => database })

/** The checkout of another version, with the packages of its lock file. */
async function checkoutOf(version: string, folder: string): Promise<string> {
  await run('sh', ['-c', `git archive "$1" | tar --extract --directory "$2"`, 'archive', version, folder], {
    cwd: checkout,
  })
  await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, maxBuffer: 16 * 1024 * 1024 })
  return folder
}

interface Answered {
  path: string
  /** 0 = the connection failed. */
  status: number
  code: string | undefined
  operationId: string | null
  step: string
}

/** The owner of the applications, who notes every answer. `at` is changed as the upgrade proceeds. */
class Owner {
  readonly answers: Answered[] = []
  readonly #platform: TestPlatform
  readonly #key: string
  readonly at: { url: string; step: string }

  constructor(platform: TestPlatform, key: string, at: { url: string; step: string }) {
    this.#platform = platform
    this.#key = key
    this.at = at
  }

  async send(path: string, files?: Record<string, string>): Promise<Response | null> {
    const form = new FormData()
    if (files) form.append('file', new Blob([new Uint8Array(zipOf(files))]), 'app.zip')
    const before = this.at.step
    const answer = await fetch(this.at.url + path, {
      method: 'POST',
      headers: { authorization: this.#key },
      ...(files && { body: form }),
      signal: AbortSignal.timeout(120_000),
    }).catch(() => null)
    const status = answer?.status ?? 0
    const operationId = answer?.headers.get('x-operation-id') ?? null
    const body = await answer
      ?.clone()
      .json()
      .catch(() => ({}))
    const step = before === this.at.step ? before : `${before}, then ${this.at.step}`
    this.answers.push({ path, status, operationId, code: (body as { code?: string })?.code, step })
    return answer
  }

  async create(text: string) {
    const program = nodeProgram(text)
    const lines = Object.entries(configOf(program)).map(([name, value]) => `${name}=${value}`)
    const answer = await this.send('/v2/apps', { 'berth.app': lines.join('\n'), ...program.files })
    if (answer?.status !== 200) return null
    return ((await answer.json()) as { response: { id: string; domain: string } }).response
  }

  async serving(text: string) {
    const app = await this.create(text)
    if (!app) throw new Error(`"${text}" was not created: ${JSON.stringify(this.answers.at(-1))}`)
    await this.#platform.serves(app.domain, text)
    return app
  }

  /** Commits, and waits for the end of the deployment; resolves to whether it was accepted. */
  async commit(appId: string, text: string): Promise<boolean> {
    const answer = await this.send(`/v2/apps/${appId}/commit`, nodeProgram(text).files)
    if (answer?.status !== 200) return false
    await this.#platform.ended(answer.headers.get('x-operation-id')!, 180)
    return true
  }
}

test('under load, a new version replaces an older one, process after process, and no answered request is lost', async t => {
  t.timeout(15 * 60_000)
  const platform = await started
  const { base, db } = platform
  const older = await checkoutOf(OLDER_VERSION, ownFolder(t))
  const inside = (folder: string, ...words: string[]) =>
    run(process.execPath, ['--import=tsx', ...words], { cwd: folder, env: { ...process.env, ...base.settings } })

  // The schema of the older version, in place of the one that the template has.
  await db.raw('drop schema public cascade')
  await db.raw('create schema public')
  await inside(older, 'workers/setup.ts')
  platform.clearLater('a')
  const hostSettings = platform.hostSettings('a', { HOST_MEMORY_MB: '20480' })
  let host = startEntry('host', hostSettings, [], older)
  let worker = startEntry('worker', base.settings, [], older)
  const first = await platform.startApiProcess({}, older)
  processes.push(host, worker, first.api)
  await Promise.all([host.ready, worker.ready])
  const words = 'users create --name ana --email ana@example.test --plan enterprise-24 --json'.split(' ')
  const account = await inside(older, 'cli/main.ts', ...words)
  const { api_key: key } = JSON.parse(account.stdout) as { api_key: string }

  const at = { url: first.url, step: 'the older version alone' }
  const owner = new Owner(platform, key, at)
  const visited = await owner.serving('visited')
  const committed = await owner.serving('committed 0')
  const commanded = await owner.serving('commanded')

  const stop = new AbortController()
  const failedPages: string[] = []
  const everyMs = async (ms: number, act: (n: number) => Promise<unknown>) => {
    for (let n = 1; !stop.signal.aborted; n++) {
      await act(n)
      await sleep(ms)
    }
  }
  let text = 'committed 0'
  const load = [
    everyMs(50, async () => {
      const seen = await platform.page(visited.domain).catch(error => ({ status: 0, body: String(error) }))
      if (seen.status !== 200) failedPages.push(`${at.step}: ${seen.status} ${seen.body.slice(0, 100)}`)
    }),
    everyMs(500, async n => {
      if (await owner.commit(committed.id, `committed ${n}`)) text = `committed ${n}`
    }),
    everyMs(500, () => owner.send(`/v2/apps/${commanded.id}/restart`)),
    everyMs(5000, n => owner.create(`created ${n}`)),
  ]
  const steps: [string, () => Promise<unknown>][] = [
    ['the older version alone', async () => {}],
    ['the new schema', () => inside(checkout, 'workers/setup.ts')],
    [
      'a new host',
      async () => {
        await host.kill('SIGTERM')
        host = startEntry('host', hostSettings)
        processes.push(host)
        await host.ready
      },
    ],
    [
      'a new worker',
      async () => {
        const settings = { ...base.settings, WORKFLOW_BUNDLE: await workflowBundle(base.folder) }
        await worker.kill('SIGTERM')
        worker = startEntry('worker', settings)
        processes.push(worker)
        await worker.ready
      },
    ],
    [
      'a new API',
      async () => {
        const next = await platform.startApiProcess()
        processes.push(next.api)
        at.url = next.url
        await first.api.kill('SIGTERM')
      },
    ],
  ]
  for (const [name, act] of steps) {
    at.step = name
    await act()
    await sleep(15_000)
  }
  stop.abort()
  await Promise.all(load)

  const accepted = owner.answers.filter(({ status }) => status === 200)
  const refused = owner.answers.filter(({ status }) => status !== 200)
  const outcomes = async (some: Answered[]) =>
    Promise.all(some.flatMap(({ operationId }) => (operationId ? [platform.ended(operationId, 180)] : [])))
  const ended = await outcomes(accepted)
  t.deepEqual(
    ended.flatMap(({ kind, state, code }) => (state === 'success' ? [] : [[kind, state, code]])),
    [],
    'what was answered with 200 succeeds',
  )
  t.log(refused.map(({ path, status, code, step }) => `${step}: ${path} ${status} ${code}`))
  const withoutHost = ['CLUSTER_MAINTENANCE_TRY_LATER', 'ACTION_FAILED']
  t.deepEqual(
    refused.filter(({ code, step }) => !step.includes('a new host') || !withoutHost.includes(code ?? '')),
    [],
    'requests are refused only while the host is replaced',
  )
  t.deepEqual(
    (await outcomes(refused)).filter(({ state }) => state === 'success'),
    [],
    'what was refused does not happen',
  )
  const created = accepted.filter(({ path }) => path === '/v2/apps').length
  t.is(Number((await db('apps').count().first())?.count), created, 'a refused creation leaves nothing')
  t.deepEqual(failedPages, [], 'every visitor is answered')
  await platform.serves(committed.domain, text)
  await owner.serving('the new version alone')
  t.log(`${owner.answers.length} requests, ${ended.length} operations`)
})
