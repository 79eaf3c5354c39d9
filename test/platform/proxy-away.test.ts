import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram } from '../kit/programs.ts'
import { zipOf } from '../kit/zips.ts'

const started = testPlatform()
const run = promisify(execFile)

test('without a proxy, or with a broken configuration, what was answered 200 is stored, and served once the proxy is back', async t => {
  t.timeout(240_000)
  const platform = await started
  const { proxy } = platform.base
  const ana = await platform.api.makeUser()
  const old = await platform.deploy(ana, nodeProgram('the first'), { MEMORY: '512' })
  t.is((await platform.page(old.domain)).body, 'the first')
  await proxy.kill('SIGKILL')

  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram('the second').files))]), 'app.zip')
  const [made, commit] = await Promise.all([
    platform.upload(await platform.api.makeUser(), nodeProgram('made meanwhile'), { MEMORY: '512' }),
    platform.api.as(ana).post(`/v2/apps/${old.id}/commit`, form),
  ])
  t.deepEqual([made.status, commit.status], [200, 200])
  const conf = join(proxy.config.dataDir, 'proxy/nginx.conf')
  await writeFile(`${conf}.torn`, (await readFile(conf, 'utf8')).slice(0, -100))
  await t.throwsAsync(run('nginx', ['-p', join(proxy.config.dataDir, 'proxy'), '-e', 'stderr', '-c', `${conf}.torn`]), {
    message: /unexpected end of file/,
  })

  const operations = [made.operationId, commit.headers.get('x-operation-id')!]
  for (const id of operations) t.like(await platform.ended(id), { state: 'success', code: null })
  t.like(await platform.row(made.id), { status: 'running' })
  t.like(await platform.row(old.id), { status: 'running', release: 2 })
  const versions = async () =>
    (await platform.remains()).containers.filter(name => name.startsWith(`berth-${old.id}-`)).sort()
  const both = [`berth-${old.id}-1`, `berth-${old.id}-2`]
  t.deepEqual(await versions(), both)
  t.true(
    (await bareDocker.getContainer(both[0]!).inspect()).State.Running,
    'a proxy that comes back sends requests to it',
  )

  await proxy.start()
  const seen = new Set<string>()
  await platform.until(
    async () => {
      const { status, body } = await platform.page(old.domain)
      seen.add(status === 200 ? body : String(status))
      return (await versions()).length === 1
    },
    90,
    'the first version is retired',
  )
  for (const text of seen) t.true(['the first', 'the second'].includes(text), text)
  t.deepEqual(await versions(), [both[1]])
  await platform.serves(made.domain, 'made meanwhile')
})
