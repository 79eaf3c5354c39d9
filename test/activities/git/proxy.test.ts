import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { connect, createServer as createPlainServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { type GitCliOptions, gitCli } from '../../../activities/git/cli.ts'
import { FetchRefused } from '../../../activities/git/port.ts'
import { gitProxySettings } from '../../../policy/git/git-proxy.ts'
import { noise } from '../../kit/bodies.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { type ConnectProxy, type ConnectProxyOptions, startConnectProxy } from '../../kit/git/connect-proxy.ts'
import { gitBench, processesOf } from '../../kit/git/git-bench.ts'
import { startGitServer } from '../../kit/git/git-server.ts'
import { certificates } from '../../kit/servers/certificates.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-git-proxy-'))
chmodSync(folder, 0o755)
const make = certificates(folder)
const authority = make.authority('company').certificate
const read = ({ certificate, key }: { certificate: string; key: string }) => ({
  cert: readFileSync(certificate, 'utf8'),
  key: readFileSync(key, 'utf8'),
})

const bench = await gitBench()
const server = await startGitServer()
/** Every name in it is a git server, at ports that only a proxy knows. */
const front = createServer(read(make.signed('forge', 'company', 'forge.example')), socket => {
  const inner = connect(server.port, '127.0.0.1')
  for (const end of [socket, inner]) end.on('error', () => {})
  socket.on('close', () => inner.destroy())
  socket.pipe(inner).pipe(socket)
}).listen(0, '127.0.0.1')
await once(front, 'listening')
const frontSockets = new Set<Socket>()
front.on('connection', socket => frontSockets.add(socket))
const frontPort = (front.address() as { port: number }).port

test.after.always(async () => {
  front.close()
  for (const socket of frontSockets) socket.destroy()
  await server.stop()
  await bench.close()
  rmSync(folder, { recursive: true })
})

const unknown = async (name: string): Promise<string[]> => {
  throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' })
}

interface Scene extends ConnectProxyOptions {
  env?: (url: string) => Record<string, string>
  resolve?: GitCliOptions['resolve']
  limits?: Pick<GitCliOptions, 'handshakeSeconds' | 'proxySeconds' | 'lookupSeconds'>
  /** Runs between the first request and git. */
  beforeGit?: (proxy: ConnectProxy) => void
}

/** A machine that resolves no name and reaches no git server but through its proxy. */
async function scene(t: ExecutionContext, { env, resolve = unknown, limits, beforeGit, ...options }: Scene = {}) {
  const proxy = await startConnectProxy(options)
  t.teardown(() => proxy.stop())
  proxy.servers.set('forge.example:443', frontPort)
  proxy.servers.set('forge.example:80', server.port)
  const warnings: string[] = []
  const { proxies, fact } = gitProxySettings(env?.(proxy.url) ?? { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url })
  const plain = gitCli({
    ...{ scratch: bench.scratch, proxies, resolve, ...limits, caBundle: async () => authority },
    warn: (facts, message) => void warnings.push(`${message} ${JSON.stringify(facts)}`),
  })
  const git: typeof plain = {
    fetch(request, onProgress, signal) {
      const onLine = (line: string) => {
        if (line.startsWith('Fetching ')) beforeGit?.(proxy)
        onProgress(line)
      }
      return plain.fetch(request, onLine, signal)
    },
  }
  const fetch = (url: string, more: Partial<Parameters<typeof bench.fetch>[1]> = {}, signal?: AbortSignal) =>
    bench.fetch(git, { url, commit: 'a'.repeat(40), ...more }, signal)
  return { proxy, fetch, fact, warnings }
}

/** The address of a repository of the server, as the world behind the proxy knows it. */
const outside = (url: string, origin = 'https://forge.example') => url.replace(server.url, origin)

/** What the server was asked for a repository, by its own address. */
const requestsOf = (url: string) => server.requests.filter(({ path }) => path.startsWith(new URL(url).pathname))

const demandingUrl = (credentials: string) => (url: string) => {
  const whole = url.replace('http://', `http://${credentials}@`)
  return { HTTPS_PROXY: whole, HTTP_PROXY: whole }
}

test('a machine that reaches nothing else fetches over https through its proxy, which gets the name', async t => {
  const repository = await server.repository({ private: true })
  const { commit } = await repository.push({ a: '1' })
  const { proxy, fetch } = await scene(t)
  const fetched = await fetch(outside(repository.url), { commit, token: server.token })
  t.is(fetched.error, null)
  t.deepEqual(fetched.paths, ['a'])
  t.true(proxy.requests.length >= 2, 'the first request, and git')
  for (const { method, target, authorization } of proxy.requests) {
    t.is(`${method} ${target}`, 'CONNECT forge.example:443')
    t.is(authorization, null, 'the token is for the server alone')
  }
})

test('plain http passes the proxy by the whole address', async t => {
  const repository = await server.repository({ private: true })
  const { commit } = await repository.push({ a: '1' })
  const { proxy, fetch } = await scene(t, { credentials: 'ana:secret', env: demandingUrl('ana:secret') })
  const fetched = await fetch(outside(repository.url, 'http://forge.example'), { commit, token: server.token })
  t.is(fetched.error, null)
  t.deepEqual(fetched.paths, ['a'])
  const basic = `Basic ${Buffer.from('ana:secret').toString('base64')}`
  for (const { method, target, authorization } of proxy.requests) {
    t.regex(`${method} ${target}`, /^(GET|POST) http:\/\/forge\.example\/someone\//)
    t.is(authorization, basic)
  }
})

test('a proxy gets its credentials from the helper, the server gets the token, and neither gets that of the other', async t => {
  const repository = await server.repository({ private: true })
  const { commit } = await repository.push({ a: '1' })
  const { proxy, fetch, fact } = await scene(t, {
    credentials: 'corp user:p@ss/w#rd %:"\\',
    env: demandingUrl('corp%20user:p%40ss%2Fw%23rd%20%25%3A%22%5C'),
  })
  const fetched = await fetch(outside(repository.url), { commit, token: server.token })
  t.is(fetched.error, null)
  t.deepEqual(fetched.paths, ['a'])
  const basic = `Basic ${Buffer.from('corp user:p@ss/w#rd %:"\\').toString('base64')}`
  t.true(proxy.requests.every(({ authorization }) => authorization === basic))
  const sent = requestsOf(repository.url).map(({ authorization }) => authorization)
  t.true(sent.length >= 3)
  const token = `Basic ${Buffer.from(`x-access-token:${server.token}`).toString('base64')}`
  for (const one of sent) t.true(one === null || one === token)
  t.notRegex(JSON.stringify({ fact, lines: fetched.lines }), /corp|p@ss|w#rd|p%40ss/)
})

test('while git runs, the password of the proxy is in no argument, environment or file', async t => {
  const repository = await server.repository()
  const pushed = await repository.push({ 'a.bin': noise(200_000) })
  server.behaviour.slow.set(repository.path, 30_000)
  const { fetch } = await scene(t, { credentials: 'ana:proxy-secret', env: demandingUrl('ana:proxy-secret') })
  const cancel = new AbortController()
  const fetching = fetch(outside(repository.url), { commit: pushed.commit }, cancel.signal)
  const ours = () => processesOf(outside(repository.url))
  await comesTrue(async () => (await ours()).length >= 2)
  const secrets = ['proxy-secret', Buffer.from('ana:proxy-secret').toString('base64')]
  for (const { text } of await ours()) for (const secret of secrets) t.false(text.includes(secret))
  const files = (await readdir(bench.scratch, { recursive: true, withFileTypes: true })).filter(file => file.isFile())
  t.true(files.length > 0)
  for (const { parentPath, name } of files) {
    const text = await readFile(join(parentPath, name), 'latin1').catch(() => '')
    for (const secret of secrets) t.false(text.includes(secret), name)
  }
  cancel.abort(new Error('cancelled'))
  t.is((await fetching).error?.message, 'cancelled')
})

test('a proxy that is spoken to with TLS is trusted by the authorities of the host', async t => {
  const { proxy, fetch } = await scene(t, {
    tls: read(make.signed('proxy', 'company', 'localhost')),
    credentials: 'ana:secret',
    env: url => ({ GIT_PROXY: url.replace('http://127.0.0.1', 'https://ana:secret@localhost') }),
  })
  const repository = await server.repository()
  const { commit } = await repository.push({ a: '1' })
  const fetched = await fetch(outside(repository.url), { commit })
  t.is(fetched.error, null)
  t.deepEqual(fetched.paths, ['a'])
  t.true(proxy.requests.length >= 2)
})

test('a proxy that refuses its credentials, or that nothing reaches, may be tried again; the customer learns nothing of it', async t => {
  const neutral = /^The git server forge\.example:(443|80) could not be reached from this platform\.$/
  const demanding = await scene(t, { credentials: 'ana:other', env: demandingUrl('ana:secret') })
  const away = await scene(t, { env: demandingUrl('ana:secret') })
  await away.proxy.stop()
  const broken = await scene(t)
  broken.proxy.servers.clear()
  const cases = [
    { of: demanding, because: /demands other credentials than GIT_PROXY, HTTPS_PROXY or HTTP_PROXY has \(HTTP 407\)/ },
    { of: away, because: /ECONNREFUSED/ },
    { of: broken, because: /it answered HTTP 503/, onlyTunnel: true },
  ]
  for (const { of, because, onlyTunnel = false } of cases)
    for (const origin of ['https://forge.example', ...(onlyTunnel ? [] : ['http://forge.example'])]) {
      const { error, lines } = await of.fetch(`${origin}/x.git`)
      t.false(error instanceof FetchRefused, error?.message)
      t.regex(error?.message ?? '', neutral)
      t.deepEqual(lines, [])
      t.regex(of.warnings.at(-1) ?? '', because)
      t.regex(of.warnings.at(-1) ?? '', /"proxy":"http:\/\/127\.0\.0\.1:\d+"/)
      t.notRegex(of.warnings.join(), /secret|ana/)
    }
})

test('a proxy that accepts connections and says nothing is reported, and may be tried again', async t => {
  const { proxy, fetch, warnings } = await scene(t, { limits: { proxySeconds: 1 } })
  proxy.silence()
  for (const origin of ['https://forge.example', 'http://forge.example']) {
    // Not by the timeout of the whole fetch, which has another message.
    const { error } = await fetch(`${origin}/x.git`, { timeoutSeconds: 120 })
    t.false(error instanceof FetchRefused, error?.message)
    t.regex(error?.message ?? '', /^The git server forge\.example:\d+ could not be reached from this platform\.$/)
    t.regex(warnings.pop() ?? '', /their proxy failed .*"it does not answer"/)
  }
})

test('a proxy that fails only once git fetches is reported to operators, and not shown to customers', async t => {
  const repository = await server.repository()
  const { commit } = await repository.push({ a: '1' })
  const away = {
    beforeGit: (proxy: ConnectProxy) => void proxy.stop(),
    because: /Failed to connect to 127\.0\.0\.1 port/,
  }
  const broken = { beforeGit: (proxy: ConnectProxy) => proxy.servers.clear(), because: /it answered HTTP 503/ }
  const demanding = {
    beforeGit: (proxy: ConnectProxy) => {
      for (const name of ['forge.example:443', 'forge.example:80']) proxy.refusals.set(name, 407)
    },
    because: /demands other credentials .*\(HTTP 407\)/,
  }
  const cases = [
    { ...away, protocol: 'https' },
    { ...away, protocol: 'http' },
    { ...broken, protocol: 'https' },
    { ...demanding, protocol: 'https' },
    { ...demanding, protocol: 'http' },
  ]
  for (const { beforeGit, because, protocol } of cases) {
    const { proxy, fetch, warnings } = await scene(t, { beforeGit })
    const { error, lines } = await fetch(outside(repository.url, `${protocol}://forge.example`), { commit })
    t.false(error instanceof FetchRefused, error?.message)
    t.regex(error?.message ?? '', /^The git server forge\.example:\d+ could not be reached from this platform\.$/)
    t.regex(warnings.join(), because)
    t.is(lines.length, 1, lines.join())
    t.false(JSON.stringify([error?.message, lines]).includes(String(proxy.port)))
  }
})

test('what a git server answers in a tunnel is not taken for an answer of the proxy', async t => {
  const { proxy, fetch, warnings } = await scene(t)
  const odd = createServer(read(make.signed('odd', 'company', 'forge.example')), socket => {
    socket.on('error', () => {}).end('HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n')
  })
  await once(odd.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void odd.close())
  proxy.servers.set('forge.example:443', (odd.address() as { port: number }).port)
  const { error } = await fetch('https://forge.example/x.git')
  t.is(error?.code, 'CLONE_FAILED', error?.message)
  t.deepEqual(warnings, [])
})

test('a name goes to the proxy if it has no address here, not while the name service does not answer', async t => {
  const failing = (code: string) => async (name: string) => {
    throw Object.assign(new Error(`${code} ${name}`), { code })
  }
  for (const code of ['ENOTFOUND', 'EAI_AGAIN']) {
    const { proxy, fetch } = await scene(t, { resolve: failing(code) })
    await fetch('https://forge.example/x.git')
    t.is(proxy.requests.length, 1, code)
  }
  const silent = () => new Promise<string[]>(() => {})
  for (const resolve of [silent, failing('ETIMEOUT')]) {
    const { proxy, fetch } = await scene(t, { resolve, limits: { lookupSeconds: 0.5 } })
    const { error } = await fetch('https://forge.example/x.git', { timeoutSeconds: 120 })
    t.false(error instanceof FetchRefused)
    t.regex(error?.message ?? '', /^The name of the git server forge\.example could not be looked up/)
    t.deepEqual(proxy.requests, [])
  }
})

test('a server that the proxy forbids ends the deploy', async t => {
  const { proxy, fetch } = await scene(t)
  proxy.refusals.set('forge.example:443', 403)
  const { error } = await fetch('https://forge.example/x.git')
  t.is(error?.code, 'CLONE_FAILED')
  t.regex(error?.message ?? '', /network of this platform does not permit connections to forge\.example:443/)
})

test('NO_PROXY and GIT_ALLOWED_HOSTS name servers that are fetched from directly, at their checked addresses', async t => {
  const repository = await server.repository()
  const { commit } = await repository.push({ a: '1' })
  const env = (url: string) => ({ GIT_PROXY: url, NO_PROXY: '.inside.example' })
  const { proxy, fetch } = await scene(t, { env, resolve: async () => ['127.0.0.1'] })
  const opened = await fetch(repository.url, { commit, allowedHosts: [server.host] })
  t.is(opened.error, null)
  const host = `git.inside.example:${server.port}`
  const named = await fetch(outside(repository.url, `http://${host}`), { commit, allowedHosts: [host] })
  t.is(named.error, null)
  const refused = await fetch(`http://git.inside.example:${server.port}/x.git`)
  t.regex(refused.error?.message ?? '', /not on the public network/, 'NO_PROXY opens nothing')
  t.deepEqual(proxy.requests, [])
  const alone = await scene(t, { env: url => ({ HTTPS_PROXY: url, no_proxy: 'example' }) })
  t.regex((await alone.fetch('https://forge.example/x.git')).error?.message ?? '', /ENOTFOUND forge\.example/)
  t.deepEqual(alone.proxy.requests, [])
})

test('what is private is refused before a proxy is asked, and a name that resolves nowhere here is left to it', async t => {
  const addresses: Record<string, string[]> = {
    'inner.example': ['93.184.216.34', '10.0.0.7'],
    'open.example': ['1.1.1.1'],
  }
  const { proxy, fetch } = await scene(t, { resolve: async name => addresses[name] ?? unknown(name) })
  const near = [
    ...['127.0.0.1', '10.0.0.1', '169.254.169.254', '[::1]', '[fd00::1]', '2130706433', '0x7f.1'],
    ...['localhost', 'a.localhost', 'db.local', 'metadata.google.internal', 'router.home.arpa', 'intranet'],
    ...['localhost.localdomain', 'git.corp', 'git.lan'],
    ...['LOCALHOST.', 'db.local.', 'inner.example', 'forge.example:22'],
  ]
  for (const host of near)
    for (const protocol of ['https', 'http']) {
      const { error } = await fetch(`${protocol}://${host}/x.git`)
      t.is(error?.code, 'CLONE_FAILED', `${host}: ${error?.message}`)
      t.regex(error?.message ?? '', /not on the public network/, host)
    }
  const own = await fetch(`http://127.0.0.1:${proxy.port}/x.git`)
  t.is(own.error?.code, 'CLONE_FAILED')
  t.deepEqual(proxy.requests, [])
  proxy.servers.clear()
  for (const name of ['open.example', 'elsewhere.example']) await fetch(`https://${name}/x.git`)
  t.deepEqual(
    proxy.requests.map(({ target }) => target),
    ['open.example:443', 'elsewhere.example:443'],
  )
})

test('a redirect is followed hop by hop through the proxy, never to what is private, and never with the token elsewhere', async t => {
  const repository = await server.repository()
  const { commit } = await repository.push({ a: '1' })
  const { proxy, fetch } = await scene(t)
  const targets: Record<string, string> = {
    '/good.git': `https://forge.example:8443${new URL(repository.url).pathname}`,
    '/private.git': 'https://10.0.0.1/x.git',
    '/local.git': 'https://vault.internal/x.git',
    '/down.git': `http://forge.example${new URL(repository.url).pathname}`,
  }
  server.behaviour.redirect = path => {
    const name = path.split('/info/refs')[0]!
    return targets[name] ? targets[name] + path.slice(name.length) : null
  }
  t.teardown(() => {
    server.behaviour.redirect = () => null
  })
  proxy.servers.set('forge.example:8443', frontPort)
  const good = await fetch('https://forge.example/good.git', { commit, token: 'carried-token' })
  t.is(good.error, null)
  t.deepEqual(good.paths, ['a'])
  t.true(requestsOf(repository.url).length >= 2)
  t.true(requestsOf(repository.url).every(({ authorization }) => authorization === null))
  t.deepEqual([...new Set(proxy.requests.map(({ target }) => target))], ['forge.example:443', 'forge.example:8443'])
  for (const name of ['private', 'local', 'down']) {
    const { error } = await fetch(`https://forge.example/${name}.git`, { commit })
    t.is(error?.code, 'CLONE_FAILED', name)
  }
  t.true(proxy.requests.every(({ target }) => /^forge\.example:(443|8443)$/.test(target)))
})

test('an https address of a port without TLS is refused through a proxy too', async t => {
  const { proxy, fetch } = await scene(t, { limits: { handshakeSeconds: 2 } })
  const silent = createPlainServer(socket => socket.on('error', () => {}).resume())
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void silent.close())
  for (const port of [server.port, (silent.address() as { port: number }).port]) {
    proxy.servers.set('forge.example:8443', port)
    // Not by the timeout of the whole fetch, which has another message and would be retried.
    const { error } = await fetch('https://forge.example:8443/x.git', { timeoutSeconds: 120 })
    t.is(error?.code, 'CLONE_FAILED', error?.message)
    t.regex(error?.message ?? '', /says https, but forge\.example:8443 does not speak it/)
  }
})
