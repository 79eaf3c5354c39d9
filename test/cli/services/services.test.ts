import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { ownSettings } from '../../../cli/installation/installation.ts'
import { answers } from '../../../cli/services/engine/answers.ts'
import { ensureDocker } from '../../../cli/services/engine/docker.ts'
import { nginxBinary, proxyProcess } from '../../../cli/services/proxy.ts'
import { findProgram, installPackages, isRoot, MissingPart } from '../../../cli/services/system-packages.ts'
import { temporalArguments } from '../../../cli/services/temporal.ts'
import { browserBinary, findBrowser } from '../../../cli/test/browser.ts'
import { parseConfig } from '../../../policy/config.ts'

const noTargets = { api: [], blob: [], s3: [], files: [], public: [] }

test('Temporal is bound to loopback, stores its data durably and dispatches tasks quickly', t => {
  const text = temporalArguments({ folder: '/data/temporal', port: 7233, uiPort: 8233 }).join(' ')
  for (const part of [
    '--ip 127.0.0.1 --port 7233',
    '--ui-ip 127.0.0.1 --ui-port 8233',
    '--db-filename /data/temporal/temporal.db',
    '--sqlite-pragma journal_mode=wal --sqlite-pragma synchronous=full',
    'history.transferProcessorMaxPollRPS=2000',
    'system.enableActivityEagerExecution=true',
    ...['AppId', 'OwnerId', 'HostId', 'OperationKind', 'DeploymentId', 'Hostname'].map(
      name => `--search-attribute ${name}=Keyword`,
    ),
  ])
    t.true(text.includes(part), part)
  t.true(temporalArguments({ folder: null, port: 1, uiPort: null }).includes('--headless'))
})

test('an engine is queried over its socket or its port, and named if it does not answer', async t => {
  const server = createServer((request, response) => response.writeHead(request.url === '/_ping' ? 200 : 404).end())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const dockerHost = `tcp://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  t.true(await answers(dockerHost))
  t.false(await answers('unix:///nowhere/docker.sock'))
  await t.notThrowsAsync(ensureDocker({ dockerHost, runFolder: '/nowhere', logFolder: '/nowhere' }, () => {}))
  const missing = ensureDocker(
    { dockerHost: 'unix:///nowhere/docker.sock', runFolder: '/nowhere', logFolder: '/nowhere' },
    () => {},
  )
  await t.throwsAsync(missing, { instanceOf: MissingPart, message: /DOCKER_HOST=unix:\/\/\/nowhere/ })
})

test('a package that cannot be installed is named with the command that installs it', async t => {
  const part = { what: 'The thing', packages: ['berth-has-no-such-package'] }
  const error = await t.throwsAsync(isRoot() ? installWithout(part) : installPackages(part, () => {}), {
    instanceOf: MissingPart,
  })
  t.regex(error?.message ?? '', /The thing is missing\. Install it with/)
  t.regex(error?.message ?? '', /berth-has-no-such-package/)
})

/** Runs one call without root's rights: the check uses only the user id. */
async function installWithout(part: { what: string; packages: string[] }): Promise<void> {
  process.seteuid?.(65534)
  const getuid = process.getuid
  process.getuid = () => 65534
  try {
    await installPackages(part, () => {})
  } finally {
    process.getuid = getuid
    process.seteuid?.(0)
  }
}

test('programs are found on the PATH and in the folders of servers', t => {
  t.is(findProgram('sh', '/nowhere')?.endsWith('/sh'), true)
  t.is(findProgram('berth-has-no-such-program', process.env.PATH), null)
})

test('tests drive the browser that CHROMIUM names, else that of the distribution', async t => {
  t.is(findBrowser({ CHROMIUM: '/opt/browser', PATH: '' }), '/opt/browser')
  const folder = mkdtempSync(join(tmpdir(), 'berth-browser-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const chromium = join(folder, 'chromium')
  writeFileSync(chromium, '#!/bin/sh\n', { mode: 0o755 })
  t.is(findBrowser({ PATH: folder }), chromium)
  const said: string[] = []
  t.is(await browserBinary(text => said.push(text)), findBrowser() ?? '')
  t.deepEqual(said, [], 'nothing is installed if a browser is present')
})

test('the nginx that NGINX names is run, or refused by name, and never replaced by another', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-nginx-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const script = (name: string, text: string) => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
    return join(folder, name)
  }
  const own = script('own', `exec ${findProgram('nginx', process.env.PATH)} "$@"`)
  const config = parseConfig({ NGINX: 'own' }, folder)
  t.is(config.edge.nginx, own)
  t.is(parseConfig({}, '/').edge.nginx, null)
  t.is(ownSettings({ NGINX: own }).NGINX, own, 'later commands and processes see it')
  const said: string[] = []
  const say = (line: string) => void said.push(line)
  t.is(await nginxBinary(say, own), own)
  const dataDir = join(folder, 'data')
  const spec = await proxyProcess(parseConfig({ NGINX: own, BERTH_DATA: dataDir }, '/'), noTargets, say)
  chmodSync(folder, 0o755)
  t.is((await spec.command()).command, own)
  const bare = script('bare', `echo 'configure arguments: --modules-path=${folder}/none' >&2`)
  for (const [named, reason] of [
    ['/nowhere/nginx', /\/nowhere\/nginx does not run/],
    [bare, /ngx_http_lua_module\.so not found/],
  ] as const) {
    const error = await t.throwsAsync(nginxBinary(say, named), { instanceOf: MissingPart, message: reason })
    t.true(
      error?.message.includes(`The setting NGINX names ${named}: set it to the path of an nginx with its Lua module`),
    )
  }
  t.deepEqual(said, [], 'nothing is installed')
})
