import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer as createPlainServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, rootCertificates } from 'node:tls'
import test from 'ava'
import { gitCli } from '../../../activities/git/cli.ts'
import { trustContexts } from '../../../activities/git/trust.ts'
import { gitBench } from '../../kit/git/git-bench.ts'
import { startGitServer } from '../../kit/git/git-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-git-tls-'))
chmodSync(folder, 0o755)
const file = (name: string) => join(folder, name)
const subject = ['-subj', '/CN=forge.example', '-addext', 'subjectAltName=DNS:forge.example']
const keys = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', file('key.pem')]
execFileSync('openssl', ['req', '-x509', '-days', '2', ...keys, ...subject, '-out', file('cert.pem')], {
  stdio: 'ignore',
})

const bench = await gitBench()
const server = await startGitServer()
const front = createServer({ key: readFileSync(file('key.pem')), cert: readFileSync(file('cert.pem')) }, socket => {
  const inner = connect(server.port, '127.0.0.1')
  for (const end of [socket, inner]) end.on('error', () => {})
  socket.on('close', () => inner.destroy())
  socket.pipe(inner).pipe(socket)
}).listen(0, '127.0.0.1')
await once(front, 'listening')
/** A client that refuses the certificate may leave its connection open here. */
const open = new Set<Socket>()
front.on('connection', socket => open.add(socket))
const portOf = (listener: Server) => (listener.address() as { port: number }).port
const host = `forge.example:${portOf(front)}`
const allowedHosts = [host, server.host]
const options = { scratch: bench.scratch, resolve: async () => ['127.0.0.1'] }

test.after.always(async () => {
  front.close()
  for (const socket of open) socket.destroy()
  await server.stop()
  await bench.close()
  rmSync(folder, { recursive: true })
})

test('a fetch works over https with an authority of the operator, by name, with a token', async t => {
  const repository = await server.repository({ private: true })
  const { commit } = await repository.push({ a: '1' })
  const url = repository.url.replace(`http://${server.host}`, `https://${host}`)
  const request = { url, commit, allowedHosts, token: server.token }
  const trusted = await bench.fetch(gitCli({ ...options, caBundle: async () => file('cert.pem') }), request)
  t.is(trusted.error, null)
  t.deepEqual(trusted.paths, ['a'])
  const stranger = await bench.fetch(gitCli(options), request)
  t.regex(stranger.error?.message ?? '', /could not be reached.*certificate/)
})

test('each fetch trusts the bundle as it is then, and parses an equal one once', async t => {
  const repository = await server.repository({})
  const { commit } = await repository.push({ a: '1' })
  const url = repository.url.replace(`http://${server.host}`, `https://${host}`)
  const bundle = file('bundle.pem')
  writeFileSync(bundle, rootCertificates[0]!)
  let path: string | null = bundle
  const git = gitCli({ ...options, caBundle: async () => path })
  const fetched = async () => (await bench.fetch(git, { url, commit, allowedHosts })).error?.message ?? 'fetched'
  t.regex(await fetched(), /certificate/)
  writeFileSync(file('new.pem'), `${rootCertificates[0]}\n${readFileSync(file('cert.pem'), 'utf8')}`)
  renameSync(file('new.pem'), bundle)
  t.is(await fetched(), 'fetched')
  path = null
  t.regex(await fetched(), /certificate/)
  const contexts = trustContexts()
  const first = await contexts.of(bundle)
  t.is(await contexts.of(bundle), first)
  copyFileSync(bundle, file('new.pem'))
  renameSync(file('new.pem'), bundle)
  t.not(await contexts.of(bundle), first)
})

test('a fetch never goes from https to http', async t => {
  server.behaviour.redirect = path => (path.startsWith('/down.git') ? `${server.url}/other${path}` : null)
  const request = { url: `https://${host}/down.git`, commit: 'a'.repeat(40), allowedHosts }
  const fetched = await bench.fetch(gitCli({ ...options, caBundle: async () => file('cert.pem') }), request)
  t.is(fetched.error?.code, 'CLONE_FAILED', fetched.error?.message)
  t.deepEqual(
    server.requests.filter(({ path }) => path.startsWith('/other')),
    [],
  )
})

test('a clone address with https for a port without it is refused, and not retried', async t => {
  const silent = createPlainServer(socket => socket.on('error', () => {}).resume())
  const greeting = createPlainServer(socket => socket.on('error', () => {}).write('SSH-2.0-OpenSSH\r\n'))
  for (const one of [silent, greeting]) await once(one.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => [silent, greeting].map(one => one.close()))
  const ports = { 'plain http': server.port, 'a greeting': portOf(greeting), silence: portOf(silent) }
  for (const [what, port] of Object.entries(ports)) {
    const request = {
      url: `https://127.0.0.1:${port}/a.git`,
      commit: 'a'.repeat(40),
      allowedHosts: [`127.0.0.1:${port}`],
    }
    // Not by the timeout of the whole fetch, which has another message and would be retried.
    const { error } = await bench.fetch(gitCli({ ...options, handshakeSeconds: 1 }), {
      ...request,
      timeoutSeconds: 120,
    })
    t.is(error?.code, 'CLONE_FAILED', `${what}: ${error?.message}`)
    t.regex(error?.message ?? '', /says https, but 127\.0\.0\.1:\d+ does not speak it/, what)
  }
})
