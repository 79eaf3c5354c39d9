import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { nginxEdge } from '../../activities/edge/nginx.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { edgeConfig } from '../../edge/edge-config.ts'
import type { EdgeConfigOptions } from '../../edge/edge-options.ts'
import { inspectNginx } from '../../edge/nginx-binary.ts'
import { prepareEdge } from '../../edge/prepare.ts'
import { surfaceTargets } from '../../edge/surfaces.ts'
import { parseConfig } from '../../policy/config.ts'
import { ask, named } from '../kit/servers/origin.ts'

function options(env: Record<string, string> = {}, more: Partial<EdgeConfigOptions> = {}): EdgeConfigOptions {
  const config = parseConfig({ BERTH_DATA: '/data', ...env }, '/')
  return {
    settings: config.edge,
    run: 'r1',
    id: 'e1',
    folder: '/data/proxy',
    scripts: '/scripts',
    nginx: { modules: '/modules', http2Directive: false, brotli: false },
    appsDomain: config.appsDomain,
    user: null,
    targets: surfaceTargets(config.bind, [config.ports]),
    allowPlainHttp: config.allowPlainHttp,
    workerConnections: 12_288,
    limitScale: 1,
    ...more,
  }
}

test('the proxy listens on loopback unless EDGE_BIND says otherwise', t => {
  t.regex(edgeConfig(options()), /listen 127\.0\.0\.1:8080 default_server;/)
  t.regex(edgeConfig(options({ EDGE_BIND: '0.0.0.0', EDGE_PORT: '80' })), /listen 0\.0\.0\.0:80 default_server;/)
  const both = edgeConfig(options({ EDGE_BIND: '::' }))
  t.is(both.split('ipv6only=off').length, 2)
  t.regex(both, /listen \[::\]:8080;/)
})

test('every server listens for https too, in the words of the nginx that is there', t => {
  const nginx = { modules: '/modules', http2Directive: false, brotli: false }
  const listening = (text: string) => text.match(/^ *listen .*8443.*$/gm)?.map(line => line.trim())
  t.is(listening(edgeConfig(options())), undefined)
  const older = edgeConfig(options({ EDGE_TLS: 'local' }))
  t.deepEqual(listening(older), [
    'listen 127.0.0.1:8443 default_server ssl http2;',
    ...Array.from({ length: 5 }, () => 'listen 127.0.0.1:8443 ssl http2;'),
  ])
  t.notRegex(older, /http2 on;/)
  const newer = edgeConfig(options({ EDGE_TLS: 'local' }, { nginx: { ...nginx, http2Directive: true } }))
  t.true(listening(newer)?.every(line => line.endsWith('ssl;')))
  t.is(newer.match(/http2 on;/g)?.length, 6)
  const proxied = { EDGE_PROXY_PROTOCOL: 'on', EDGE_TRUSTED_PROXIES: '10.0.0.1' }
  t.is(edgeConfig(options({ EDGE_TLS: 'local', ...proxied })).match(/ proxy_protocol;$/gm)?.length, 13)
})

test('brotli is used where its module is there', t => {
  const nginx = { modules: '/modules', http2Directive: false, brotli: true }
  t.notRegex(edgeConfig(options()), /brotli/)
  t.regex(edgeConfig(options({}, { nginx })), /load_module .*brotli_filter[\s\S]*brotli on;/)
  t.notRegex(edgeConfig(options({ EDGE_COMPRESSION: 'off' }, { nginx })), /brotli|gzip/)
})

test('processes, limits and the user follow the settings', t => {
  t.regex(edgeConfig(options()), /worker_processes auto;/)
  const text = edgeConfig(
    options({ EDGE_WORKERS: '3', EDGE_CONNECTIONS_PER_ADDRESS: '7' }, { limitScale: 1.5, user: 'www-data' }),
  )
  t.regex(text, /worker_processes 3;/)
  t.regex(text, /limit_conn per_address 11;/)
  t.regex(text, /user www-data;/)
  t.notRegex(edgeConfig(options()), /^user /m)
})

test('paths and networks that nginx would misread are refused', t => {
  t.throws(() => edgeConfig(options({}, { folder: '/a"b' })), { message: /rename the folder/ })
  t.throws(() => edgeConfig(options({ EDGE_TRUSTED_PROXIES: '10.0.0.0/8,example; x' })), {
    message: /EDGE_TRUSTED_PROXIES/,
  })
})

test('a missing nginx is reported with the command that installs it', async t => {
  await t.throwsAsync(inspectNginx('/nowhere/nginx'), { message: /apt-get install nginx-light libnginx-mod-http-lua/ })
})

test('the control socket is in a folder that other users cannot enter', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'berth-edge-'))
  t.teardown(() => rm(dataDir, { recursive: true }))
  await chmod(dataDir, 0o711)
  const config = parseConfig({ BERTH_DATA: dataDir }, '/')
  await prepareEdge(config)
  t.is((await stat(dirname(config.edge.controlSocket))).mode & 0o777, 0o700)
  await chmod(dirname(config.edge.controlSocket), 0o755)
  await t.throwsAsync(prepareEdge(config), { message: /chmod 700/ })
  await chmod(dirname(config.edge.controlSocket), 0o710)
  await t.notThrowsAsync(prepareEdge(config), 'a group that somebody let in stays')
})

test('nginx accepts the configuration as an ordinary user too', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-edge-'))
  let child: ChildProcess | undefined
  t.teardown(async () => {
    child?.kill('SIGTERM')
    await rm(folder, { recursive: true })
  })
  const port = await unusedPort()
  const socket = join(folder, 'control.sock')
  const routesFile = join(folder, 'routes.json')
  const env = { EDGE_PORT: String(port), EDGE_CONTROL_SOCKET: socket, EDGE_ROUTES_FILE: routesFile, EDGE_WORKERS: '1' }
  const scripts = join(folder, 'lua')
  await cp(fileURLToPath(new URL('../../edge/lua', import.meta.url)), scripts, { recursive: true })
  const nginx = await inspectNginx('nginx')
  await writeFile(join(folder, 'nginx.conf'), edgeConfig(options(env, { folder, scripts, nginx })))
  for (const name of ['access', 'cache', 'temporary']) await mkdir(join(folder, name))
  const nobody = process.geteuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
  if (nobody.uid)
    for (const name of ['.', 'access', 'cache', 'temporary']) await chown(join(folder, name), nobody.uid, nobody.gid)
  child = spawn('nginx', ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], {
    stdio: 'ignore',
    ...nobody,
  })
  const origin = await named('reached')
  t.teardown(origin.stop)
  const edge = nginxEdge(socket)
  for (let attempt = 0; attempt < 200 && !(await edge.listRoutes().catch(() => null)); attempt++) await sleep(25)
  await edge.setRoute({ host: 'a.localhost', appId: 'a1', address: '127.0.0.1', port: origin.port })
  t.is((await ask(port, 'a.localhost')).body, 'reached')
  t.true((await stat(routesFile)).size > 0)
  const ended = once(child, 'exit')
  child.kill('SIGQUIT')
  t.deepEqual(await ended, [0, null])
})
