import { execFileSync } from 'node:child_process'
import test from 'ava'
import type { RemoteEngine } from '../../../activities/databases/port.ts'
import { databaseHostname } from '../../../policy/databases/connection-url.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { customers } from '../../kit/databases/customers.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { testPlatform } from '../../kit/platform/platform.ts'
import type { Program } from '../../kit/programs.ts'

const started = testPlatform({
  settings: {
    DATABASE_ENGINES: 'mongo,mysql,redis,postgres',
    MONGO_STAND_IN: 'on',
    HOST_FIREWALL: 'auto',
    DISK_MB_PER_256MB: '256',
  },
})

/** Without a cache they are created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_500_000

async function scene() {
  const platform = await started
  const ana = await platform.api.makeUser()
  const as = platform.api.as(ana)
  await platform.until(
    async () => {
      const [host] = await platform.db('hosts').select('database_images')
      return ['redis:8', 'postgres:17', 'mysql:9', 'mongo-stand-in:8'].every(
        image => host.database_images[`berth/${image}`] === 'ready',
      )
    },
    imageSeconds,
    'the images of all engines',
  )
  async function create(type: EngineName, version: string, memory: number) {
    const answer = await as.request('POST', '/v2/databases', {
      body: JSON.stringify({ name: `My ${type}`, type, version, memory }),
    })
    if (answer.status !== 200) throw new Error(`POST /v2/databases answered ${answer.status}: ${answer.text}`)
    const { response } = answer.body
    const { port } = (await as.get(`/v2/databases/${response.id}`)).body.response
    const [, , authority = ''] = blocksOf(response.certificate)
    const remote: RemoteEngine = {
      host: '127.0.0.1',
      port,
      authority,
      servername: databaseHostname(response.id, platform.base.config.databases.domain),
    }
    return { ...response, port, remote, path: `/v2/databases/${response.id}` } as {
      id: string
      password: string
      certificate: string
      connection_url: string
      port: number
      remote: RemoteEngine
      path: string
    }
  }
  return { platform, ana, as, create }
}

/** The PEM blocks of what an owner reads: key, certificate, authority. */
const blocksOf = (certificate: string): string[] =>
  Buffer.from(certificate, 'base64')
    .toString()
    .split(/(?<=-----END [A-Z ]+-----\n)/)

const offers = [
  ['redis', '8', 512],
  ['postgres', '17', 1024],
  ['mysql', '9', 1024],
  ['mongo', '8', 1024],
] as const

for (const [type, version, memory] of offers)
  test.serial(
    `a ${type}${type === 'mongo' ? ' (stand-in)' : ''} serves its owner from the answer on, until it is deleted`,
    async t => {
      t.timeout(timeoutMs)
      const { platform, as, create } = await scene()
      const database = await create(type, version, memory)
      const connect = customers[type]
      const reset = (what: string) =>
        as.request('POST', `${database.path}/credentials/reset`, { body: JSON.stringify({ reset: what }) })
      const first = await connect(database.remote, database.password)
      await first.write(1)

      t.is((await as.post(`${database.path}/stop`)).status, 200)
      await first.closed
      t.like((await as.get(`${database.path}/status`)).body.response, { running: false })
      t.is((await as.post(`${database.path}/stop`)).body.code, 'CONTAINER_ALREADY_STOPPED')
      t.is((await as.post(`${database.path}/start`)).status, 200)
      const again = await connect(database.remote, database.password)
      t.deepEqual(await again.read(), [1], 'what was written is there')

      const rotated = await reset('password')
      t.is(rotated.status, 200, rotated.text)
      const { password } = rotated.body.response
      t.not(password, database.password)
      await again.closed
      await t.throwsAsync(connect(database.remote, database.password), undefined, 'the old password is refused')
      const newer = await connect(database.remote, password)
      t.deepEqual(await newer.read(), [1])

      const certified = await reset('certificate')
      t.is(certified.status, 200, certified.text)
      const { certificate } = (await as.get(`${database.path}/credentials/certificate`)).body.response
      t.not(certificate, database.certificate)
      const remote = { ...database.remote, authority: blocksOf(certificate)[2]! }
      const last = await connect(remote, password)
      t.not(last.fingerprint, first.fingerprint)
      await newer.write(2).catch(() => undefined) // its connection may have ended with a restart
      const size = await as.request('PATCH', database.path, {
        body: JSON.stringify({ ram: memory * 2, name: 'Renamed' }),
      })
      t.is(size.status, 200, size.text)
      t.like((await as.get(database.path)).body.response, { name: 'Renamed', ram: memory * 2 })
      const larger = await connect(database.remote, password)
      t.true((await larger.read()).includes(1))
      larger.end()

      const taken = await as.post(`${database.path}/snapshots`)
      t.is(taken.status, 200, taken.text)
      const [listed] = (await as.get(`${database.path}/snapshots`)).body.response
      t.like(listed, { runtime: type, origin: 'manual' })
      const later = await connect(remote, password)
      await later.write(3)
      const restored = await as.request('POST', `${database.path}/snapshots/restore`, {
        body: JSON.stringify({ snapshotId: listed.name, versionId: listed.version_id }),
      })
      t.is(restored.status, 200, restored.text)
      await later.closed
      const back = await connect(remote, password)
      t.false((await back.read()).includes(3), 'what was written after the snapshot is missing')
      t.true((await back.read()).includes(1))
      back.end()

      t.is((await as.request('DELETE', database.path)).status, 200)
      t.is((await as.get(database.path)).body.code, 'DATABASE_NOT_FOUND')
      const left = async () => (await platform.remains()).volumes.length === 0
      await platform.until(left, 30, 'the volume of a deleted database is removed')
      t.deepEqual((await platform.remains()).containers, [])
    },
  )

/** Answers whether it could connect, to the address of its query. */
const prober: Program = {
  main: 'index.js',
  files: {
    'index.js': `
      const net = require('node:net')
      require('node:http').createServer((request, answer) => {
        const [host, port] = (new URL(request.url, 'http://x').searchParams.get('to') ?? '127.0.0.1|1').split('|')
        const socket = net.connect({ host, port: Number(port), timeout: 3000 })
        const end = words => { socket.destroy(); answer.end(words) }
        socket.on('connect', () => end('connected')).on('error', error => end(error.code)).on('timeout', () => end('timeout'))
      }).listen(process.env.PORT)`,
  },
}

test.serial('applications of the owner reach a database by its name; those of others do not', async t => {
  t.timeout(timeoutMs)
  const { platform, ana, create } = await scene()
  const bea = await platform.api.makeUser()
  const database = await create('redis', '8', 512)
  const own = await platform.deploy(ana, prober)
  const foreign = await platform.deploy(bea, prober)
  const [state] = await bareDocker.listContainers({ filters: { label: [`berth.database=${database.id}`] } as never })
  const address = Object.values(state!.NetworkSettings.Networks)[0]!.IPAddress
  const probe = async (domain: string, host: string, port = database.port) =>
    (await platform.page(domain, { path: `/?to=${host}|${port}` })).body
  await platform.serves(own.domain, '')
  await platform.serves(foreign.domain, '')
  const { servername } = database.remote
  t.is(await probe(own.domain, servername), 'connected')
  t.is(await probe(own.domain, address), 'connected')
  t.not(await probe(own.domain, address, 6379), 'connected')
  t.is(await probe(foreign.domain, servername), 'ENOTFOUND')
  t.not(await probe(foreign.domain, address), 'connected')
  t.not(await probe(foreign.domain, platform.base.config.host.address), 'connected')
  const { SandboxKey: network } = (await bareDocker.getContainer(state!.Id).inspect()).NetworkSettings
  const rules = execFileSync('nsenter', [`--net=${network}`, 'iptables', '-w', '-S']).toString()
  t.regex(rules, new RegExp(`-A INPUT .*--dport ${database.port} .*-j clients`))
  const [range, gateway] = ['0/24', '1/32'].map(last => address.replace(/\d+$/, last))
  t.regex(rules, new RegExp(`-A clients -s ${gateway} -g outside`), 'the machine is not of its owner')
  t.regex(rules, new RegExp(`-A clients -s ${range} .*--connlimit-above 128 `), 'programs of its owner')
  t.regex(rules, /-A clients -p tcp .*--connlimit-above 64 .*--connlimit-mask 32 /, 'one address elsewhere')
  t.regex(rules, /-A clients -p tcp .*--connlimit-above 128 .*--connlimit-mask 0 /, 'all of them')
})
