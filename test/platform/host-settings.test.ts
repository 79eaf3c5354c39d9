import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { startConnectProxy } from '../kit/git/connect-proxy.ts'
import { webhookOf } from '../kit/git/deliveries.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import type { Program } from '../kit/programs.ts'
import { certificates } from '../kit/servers/certificates.ts'

// Settings of a host that others leave as they are, each seen where it is to count.

const git = await startGitServer()
/** The only way to a name that nothing here resolves. */
const proxy = await startConnectProxy({ credentials: 'ana:proxy-secret' })
proxy.servers.set('forge.example:80', git.port)
test.after.always('stop the git server and the proxy', () => Promise.all([git.stop(), proxy.stop()]))
const folder = mkdtempSync(join(tmpdir(), 'berth-settings-'))
test.after.always(() => rmSync(folder, { recursive: true }))
const authorities = join(folder, 'ca.pem')
certificates(folder).authority('ca')
const buildProxy = 'http://127.0.0.1:9'
const own = {
  ...{ HOST_QUOTA: 'off', BUILD_PROXY: buildProxy, BUILD_CA_BUNDLE: authorities, GIT_MAX_MB: '1' },
  GIT_PROXY: proxy.url.replace('http://', 'http://ana:proxy-secret@'),
}
const started = testPlatform({ hosts: { a: own } })

/** Its installation writes down what it is given; the application shows files of its folder. */
const telling: Program = {
  main: 'index.js',
  files: {
    'package.json': JSON.stringify({
      scripts: { preinstall: 'echo "$HTTPS_PROXY" > proxy.txt; cat "$NODE_EXTRA_CA_CERTS" > ca.txt' },
    }),
    'index.js': `const { readFileSync } = require('node:fs')
require('node:http').createServer((request, answer) => answer.end(request.url === '/' ? 'up' : readFileSync('.' + request.url))).listen(process.env.PORT)
`,
  },
}

test('a build uses the proxy and trusts the authorities of the settings; disks and fetches follow the settings', async t => {
  t.timeout(120_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  const app = await platform.deploy(ana, telling)
  t.like(app.operation, { state: 'success', code: null })
  t.is((await platform.page(app.domain, { path: '/proxy.txt' })).body, `${buildProxy}\n`)
  const { body: trusted } = await platform.page(app.domain, { path: '/ca.txt' })
  t.true(trusted.includes(readFileSync(authorities, 'utf8')) && trusted.split('BEGIN CERTIFICATE').length > 50)

  t.false(readFileSync('/proc/self/mounts', 'utf8').includes(app.id), 'its disk is a folder')
  const { parts } = await platform.startHost('b', {
    ...{ CONTAINER_RUNTIME: 'runsc', HOST_QUOTA: 'off' },
    ...{ DATABASE_DOMAIN: 'b.test', DATABASE_BIND: '127.0.0.9' },
  })
  t.is(parts.traits.runtime, 'runsc')
  const place = await platform
    .db('hosts')
    .where({ id: platform.hostId('b') })
    .first('database_domain', 'database_addresses')
  t.deepEqual({ ...place }, { database_domain: 'b.test', database_addresses: ['127.0.0.9'] })
  const { protections, builds } = await platform
    .db('hosts')
    .where({ id: platform.hostId('a') })
    .first()
  t.is(protections.quota, 'checked, not enforced: the setting HOST_QUOTA is off')
  t.is(builds.proxy.state, `${buildProxy} (BUILD_PROXY)`)
  t.regex(builds.proxy.remedy, /loopback/)
  t.true(builds.authorities.state.endsWith(`, BUILD_CA_BUNDLE ${authorities})`), builds.authorities.state)

  t.is(builds['git proxy'].state, `http://...@127.0.0.1:${proxy.port} (GIT_PROXY)`)
  const repository = await git.repository({ files: telling.files, seenAt: 'http://forge.example' })
  repository.hook = { url: platform.api.url + (await webhookOf(platform.api, ana, app.id)), provider: 'github' }
  const large = { ...telling.files, 'large.txt': '0'.repeat(2 ** 21) }
  const { reply } = await repository.push(large)
  const id = /deployment ([0-9a-f]{32})/.exec(reply!.text)?.[1]
  const { operation_id: operationId } = await platform.db('deployments').where({ id }).first()
  t.like(await platform.ended(operationId), { state: 'error', code: 'REPOSITORY_TOO_LARGE' })
  t.true(proxy.requests.length >= 2, 'fetched through the proxy, as nothing else leads there')
  t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200)
})
