import { once } from 'node:events'
import { chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { buildAuthorities } from '../../../activities/builds/authorities.ts'
import { issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { bridgeName, chainName } from '../../../activities/containers/network-names.ts'
import { buildNetwork } from '../../../activities/containers/spec.ts'
import { iptablesFirewall } from '../../../activities/firewall/iptables.ts'
import { proxyAddresses } from '../../../activities/firewall/proxy-addresses.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { releaseFolders } from '../../../activities/releases/files.ts'
import { installRelease } from '../../../activities/releases/install.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { parseConfig } from '../../../policy/config.ts'
import { toolImages, withToolImages } from '../../kit/hosts/tool-images.ts'
import { demandRoot } from '../../kit/root.ts'
import { engineFact, realDocker } from '../../kit/servers/docker.ts'

/*
 * What install steps trust and which proxy they use, asked from inside their containers: a registry with a certificate of an authority that
 * only a file of the settings names, at the address of the host and behind a proxy that alone knows its name.
 */
const docker = realDocker()
const builds = buildNetwork(docker.run)
// A name of a host's chains: other firewalls of this machine take any other for rules of a stranger.
const names = { name: chainName(docker.run), bridges: 'btnone+', resolvers: [] }
const requests: string[] = []
let folder = ''
let gateway = ''
let registry: Server
let proxy: Server
const port = (server: Server) => (server.address() as AddressInfo).port
const corp = () => join(folder, 'corp.pem')

test.before(async () => {
  for (const image of ['berth/node:22', 'berth/python:3.11', 'berth/go:1.24', toolImages.java])
    await docker.host.ensureImage(image)
  await docker.host.ensureNetwork(builds)
  gateway = (await engineFact(`/networks/${builds.name}`)).IPAM.Config[0].Subnet.replace('.0/24', '.1')
  folder = await mkdtemp(`${tmpdir()}/berth-build-trust-`)
  const authority = await makeAuthority()
  const wanted = { commonName: 'registry.invalid', names: ['registry.invalid'], addresses: [gateway], days: 2 }
  const { certificate: cert, privateKey: key } = await issueCertificate(authority, { kind: 'server', ...wanted })
  await writeFile(corp(), `${key}\n${authority.certificate}`)
  registry = createTlsServer({ cert, key }, (request, response) => response.end(answerTo(request.url ?? '')))
  proxy = createServer().on('connect', (request, client) => {
    requests.push(request.url ?? '')
    const server = connect(port(registry), gateway, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      server.pipe(client).pipe(server)
    })
    for (const socket of [server, client]) socket.on('error', () => {})
  })
  for (const server of [registry, proxy]) await once(server.listen(0, gateway), 'listening')
})

test.after.always(async () => {
  for (const server of [registry, proxy]) {
    server?.close()
    server?.closeAllConnections()
  }
  await iptablesFirewall({ ...names, builds: { bridges: bridgeName(builds), proxies: [] } }).remove()
  await docker.clean(builds.name)
  await rm(folder, { recursive: true, force: true })
})

const pom = (fields: string) =>
  `<project><modelVersion>4.0.0</modelVersion><packaging>pom</packaging>${fields}</project>`
const parent = '<groupId>a.b</groupId><artifactId>parent</artifactId><version>1</version>'

/** What a repository of Maven, a module proxy and any other registry would say. */
function answerTo(path: string): string {
  if (path.endsWith('.pom')) return pom(parent)
  return path.endsWith('.info') ? '{"Version": "v1.0.0"}' : '{"answer": "registry"}'
}

const uid = 10_001
const versions: Record<string, string> = { javascript: '22', python: '3.11', go: '1.24', java: '21' }
let number = 0

/** Runs an install step on a host with these settings, as that host does. Rejects when it fails. */
async function install(env: Record<string, string>, command: string, language = 'javascript'): Promise<void> {
  const { proxy: buildProxy, authorities: files } = parseConfig(env, '/').host.builds
  const authorities = buildAuthorities({ files, folder, report: () => {} })
  const host = {
    ...{ engine: withToolImages(docker.host), authorities, sharedUid: null, volumes: { flush: async () => {} } },
    traits: { id: docker.run, runtime: 'runc', configNames: [], buildProxy, caBundle: null },
  } as unknown as AppHostOptions
  const folders = releaseFolders(join(folder, String(++number)), 1)
  await mkdir(folders.source, { recursive: true })
  await chown(folders.source, uid, uid)
  const release = {
    ...{ appId: `app-${number}`, ownerId: 'tenant', hostId: docker.run, number: 1, uid, deploymentId: null },
    ...{ language, runtimeVersion: versions[language], ramMb: 256, reservedMb: 256, cpus: 1 },
  } as Release
  await installRelease(
    host,
    release,
    folders,
    { install: `${command} && mkdir -p node_modules .berth` },
    AbortSignal.timeout(120_000),
  )
}

const npm = (url: string) => `npm ping --fetch-retries 0 --registry ${url}`
const python = (url: string) =>
  `python3 -c "import urllib.request as u; assert b'registry' in u.urlopen('${url}').read()"`
/** Fetches the parent of a project. */
const maven = (url: string) =>
  `echo '${pom(`<parent>${parent}</parent><artifactId>x</artifactId><repositories><repository><id>central</id><url>${url}</url></repository></repositories>`)}' > pom.xml && MAVEN_OPTS=-XX:TieredStopAtLevel=1 mvn -B -ntp -Dmaven.repo.local=/tmp/.m2 validate`
const go = (url: string) => `GOPROXY=${url} go list -m example.test/tiny@v1.0.0`
const refused = { message: /ended with exit code/ }

test.serial(
  'a build trusts what the settings of its host name, and the authorities of the system as before',
  async t => {
    t.timeout(110_000)
    const url = `https://${gateway}:${port(registry)}/`
    const trusted = { NODE_EXTRA_CA_CERTS: corp() }
    await t.notThrowsAsync(install(trusted, npm(url)))
    await t.notThrowsAsync(install(trusted, python(url), 'python'))
    await t.throwsAsync(install({}, npm(url)), refused)
    await t.throwsAsync(install({}, python(url), 'python'), refused)
    await t.throwsAsync(install({ ...trusted, BUILD_CA_BUNDLE: 'off' }, npm(url)), refused)
    const many = 'test "$(grep -c BEGIN "$SSL_CERT_FILE")" -gt 50 && ! grep -q PRIVATE "$SSL_CERT_FILE"'
    await t.notThrowsAsync(install(trusted, many), 'the file that replaces the store of the image is whole')
    await t.throwsAsync(install(trusted, 'echo x >> "$SSL_CERT_FILE"'), refused)
  },
)

test.serial('a file that is missing keeps no build from its step', async t => {
  await t.notThrowsAsync(install({ BUILD_CA_BUNDLE: join(folder, 'missing.pem') }, 'test -s "$SSL_CERT_FILE"'))
})

const trusts = test.macro(async (t, language: string, fetches: (url: string) => string) => {
  t.timeout(400_000)
  demandRoot()
  const env = { NODE_EXTRA_CA_CERTS: corp(), HTTPS_PROXY: `http://${gateway}:${port(proxy)}` }
  await t.notThrowsAsync(install(env, fetches('https://registry.invalid/'), language))
  t.deepEqual([...new Set(requests.splice(0))], ['registry.invalid:443'])
  const direct = `https://${gateway}:${port(registry)}/`
  await t.notThrowsAsync(install({ ...env, NO_PROXY: gateway }, fetches(direct), language))
  t.deepEqual(requests, [])
  await t.throwsAsync(
    install({ ...env, NO_PROXY: gateway, BUILD_CA_BUNDLE: 'off' }, fetches(direct), language),
    refused,
  )
  await t.throwsAsync(install({ ...env, BUILD_PROXY: 'off' }, fetches('https://registry.invalid/'), language), refused)
})

test.serial('Maven trusts what its host trusts, and uses its proxy', trusts, 'java', maven)
test.serial('the go command trusts what its host trusts, and uses its proxy', trusts, 'go', go)

test.serial(
  'a build reaches a registry through the proxy of the service, which the firewall opens, and not without',
  async t => {
    t.timeout(110_000)
    demandRoot()
    const env = { NODE_EXTRA_CA_CERTS: corp(), HTTPS_PROXY: `http://${gateway}:${port(proxy)}` }
    const { recent: known } = proxyAddresses(parseConfig(env, '/').host.builds, { subnets: async () => [] })
    await iptablesFirewall({ ...names, builds: { bridges: bridgeName(builds), proxies: [] }, proxies: known }).apply()
    await t.notThrowsAsync(install(env, npm('https://registry.invalid/')))
    await t.notThrowsAsync(install(env, python('https://registry.invalid/'), 'python'))
    t.deepEqual([...new Set(requests)], ['registry.invalid:443'])
    t.is(requests.length, 2)
    await t.throwsAsync(install({ ...env, BUILD_PROXY: 'off' }, npm('https://registry.invalid/')), refused)
    await t.throwsAsync(install({ ...env, NO_PROXY: 'registry.invalid' }, npm('https://registry.invalid/')), refused)
    t.is(requests.length, 2)
  },
)
