import test from 'ava'
import { readLog } from '../../db/deploys/deployments.ts'
import { webhookOf } from '../kit/git/deliveries.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { npmFiles } from '../kit/hosts/installs.ts'
import { logSink } from '../kit/log-sink.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import type { Program } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ log: logSink().log, settings: { GIT_ALLOWED_HOSTS: git.host } })

/** Answers with its text, with the packages that npm has listed, and with whether it can write among them. */
const text = (words: string) => `const fs = require('node:fs')
const packages = () => JSON.parse(fs.readFileSync('node_modules/.package-lock.json')).lockfileVersion
const write = () => { try { fs.writeFileSync('node_modules/x', ''); return 'written' } catch (error) { return error.code } }
require('node:http').createServer((request, answer) =>
  answer.end([${JSON.stringify(words)}, fs.existsSync('node_modules') ? packages() + ' ' + write() : 'none'].join(' '))).listen(process.env.PORT)
`

const program = (words: string, files = {}): Program => ({
  main: 'index.js',
  files: { ...files, 'index.js': text(words) },
})

async function linked(files: Record<string, string>) {
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, program('one', files))
  const path = await webhookOf(platform.api, ana, app.id, { access_token: git.token })
  const repository = await git.repository({ files: program('one', files).files })
  repository.hook = { url: platform.api.url + path, provider: 'github' }

  async function push(words: string, changed = files) {
    const { reply } = await repository.push(program(words, changed).files)
    const id = /deployment ([0-9a-f]{32})/.exec(reply?.text ?? '')?.[1]
    const { operation_id } = await platform.db('deployments').where({ id }).first()
    t0(await platform.ended(operation_id))
    const row = await platform.db('deployments').where({ id }).first()
    const events = await platform.db('deployment_events').where({ deployment_id: id })
    const at = (state: string) => new Date(events.find(event => event.state === state).at).getTime()
    const { body } = await platform.page(app.domain)
    return {
      dependencies: row.dependencies,
      log: await readLog(platform.db, id!),
      body,
      took: at('success') - at('clone'),
    }
  }
  /** The same files as an archive, until the deployment has ended. */
  async function upload(words: string, changed = files) {
    const form = new FormData()
    form.append('file', new Blob([new Uint8Array(zipOf(program(words, changed).files))]), 'app.zip')
    const { status } = await platform.api.as(ana).request('POST', `/v2/apps/${app.id}/commit`, { body: form })
    if (status !== 200) throw new Error(`the commit answered ${status}`)
    const row = await platform.db('deployments').where({ app_id: app.id }).orderBy('created_at', 'desc').first()
    t0(await platform.ended(row.operation_id))
    const { dependencies } = await platform.db('deployments').where({ id: row.id }).first()
    return { dependencies, body: (await platform.page(app.domain)).body }
  }
  return { platform, push, upload }
}

function t0(operation: { state: string; message: string | null }): void {
  if (operation.state !== 'success') throw new Error(`The push ended as ${operation.state}: ${operation.message}`)
}

test.serial(
  'a push that only changes code installs nothing, and its program has the dependencies, read-only',
  async t => {
    t.timeout(170_000)
    const bare = await linked({})
    const cached = await linked(npmFiles())
    const first = await cached.push('two')
    t.is(first.body, 'two 3 EROFS')
    const second = await cached.push('three')
    t.is(second.body, 'three 3 EROFS')
    t.regex(second.dependencies, /^reused from release \d, installed at/)
    t.true(second.log.includes(`Dependencies: ${second.dependencies}.`))
    t.notRegex(second.log, /npm|added/)
    const changed = await cached.push('four', npmFiles('1.0.1'))
    t.is(changed.dependencies, 'installed anew: since release 1 changed package-lock.json')
    t.is(changed.body, 'four 3 EROFS')
    const uploaded = await cached.upload('five', npmFiles('1.0.1'))
    t.regex(uploaded.dependencies, /^reused from release \d, installed at/)
    t.is(uploaded.body, 'five 3 EROFS')

    const median = async (push: typeof bare.push, files: Record<string, string>) => {
      const took: number[] = []
      for (let n = 0; n < 5; n++) took.push((await push(`round ${n}`, files)).took)
      return took.sort((a, b) => a - b)[2]!
    }
    const floor = await median(bare.push, {})
    const reused = await median(cached.push, npmFiles('1.0.1'))
    t.log(`from fetch to the success, median of 5: ${floor} ms without dependencies, ${reused} ms with reused ones`)
  },
)
