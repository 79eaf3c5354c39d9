import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { labels } from '../../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../../activities/containers/spec.ts'
import { databaseContainerName, databaseRole } from '../../../../activities/databases/names.ts'
import { iptablesFirewall, namesOf } from '../../../../activities/firewall/iptables.ts'
import { strayBook } from '../../../../activities/hosts/stray-book.ts'
import { appLocks } from '../../../../activities/steps/app-locks.ts'
import { folderVolumes } from '../../../../activities/volumes/folder.ts'
import * as databases from '../../../../db/databases/databases.ts'
import { newId } from '../../../../policy/ids.ts'
import { admitDatabases } from '../../../../workers/host/databases/database-admissions.ts'
import { watchDatabases } from '../../../../workers/host/databases/database-watch.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { inBoot } from '../../../kit/hosts/boots.ts'
import { demandRoot } from '../../../kit/root.ts'
import { rows } from '../../../kit/rows/rows.ts'
import { testDatabase } from '../../../kit/servers/database.ts'
import { realDocker } from '../../../kit/servers/docker.ts'

/* Real containers, networks and rules: what an application hears from a database of its owner while the watch runs. */
const database = testDatabase()
const docker = realDocker()
const { host: engine, run: hostId } = docker
const firewall = iptablesFirewall({ ...namesOf(hostId), resolvers: [] })
const folder = mkdtempSync(join(tmpdir(), 'berth-admitted-'))
const log = pino({ level: 'silent' })
const port = 20_001
let network = ''

test.before(() => docker.prepare())
test.after.always(async () => {
  await firewall.remove()
  await docker.clean(network || docker.network)
  rmSync(folder, { recursive: true, force: true })
})

test('a database is reached by applications of its owner at whatever address it was started, and its old address no longer', async t => {
  demandRoot()
  t.timeout(180_000)
  const { db } = await database
  const make = rows(db)
  const { id: ownerId } = await make.user()
  await make.host(hostId)
  network = tenantNetwork(ownerId, hostId).name
  await engine.ensureNetwork(tenantNetwork(ownerId, hostId))
  await firewall.apply()

  const id = newId()
  const serves = `require('net').createServer(s => { s.on('error', () => {}); s.end('data') }).listen(${port})`
  const spec = docker.spec(`exec node -e "${serves}"`, { network, name: databaseContainerName({ id, generation: 1 }) })
  const own = { [labels.database]: id, [labels.release]: '1', [labels.role]: databaseRole, [labels.port]: String(port) }
  spec.labels = { ...spec.labels, ...own, [labels.owner]: ownerId }
  const containerId = await engine.create(spec)
  await engine.start(spec.name)
  await db('databases').insert({
    ...{ id, owner_id: ownerId, name: 'store', engine: 'redis', version: '8', image: 'berth/redis:8', ram_mb: 512 },
    ...{ reserved_mb: 512, cpu: 1, host_id: hostId, port },
  })
  await databases.recordDatabaseStarted(db, id, { containerId, startedAt: new Date(), bootId: 'boot-1' })

  /** What an application of the owner hears there, or the code of the refusal. */
  async function heard(address: string): Promise<string> {
    const hears = "s.on('data', d => { console.log(String(d)); s.destroy() }).on('error', e => console.log(e.code))"
    const script = `const s = require('net').connect({ host: '${address}', port: ${port} }); ${hears}`
    let output = ''
    const add = (text: string) => {
      output += text
    }
    await engine.runToEnd(docker.spec(`exec node -e "${script}"`, { network }), add, AbortSignal.timeout(60_000))
    return output.trim()
  }
  const addressNow = async () => (await engine.inspect(spec.name))!.address!
  const first = await addressNow()
  t.is(await heard(first), 'ECONNREFUSED', 'nobody has admitted it')

  const ending = new AbortController()
  const admit = admitDatabases({ engine, firewall, hostId })
  const strays = strayBook(join(folder, 'strays.json'))
  const parts = { db, engine, volumes: folderVolumes(join(folder, 'volumes')), strays, locks: appLocks(), hostId, log }
  const figures = { memoryOf: async () => ({ usedBytes: 0, limitBytes: 1 }), diskOf: async () => null }
  const options = { ...parts, ...figures, boot: inBoot('boot-1'), held: async () => {}, admit, everySeconds: 600 }
  const watch = watchDatabases(options, ending.signal)
  try {
    await comesTrue(async () => (await heard(first)) === 'data')
    await databases.recordDatabaseDesired(db, id, 'stopped') // so that only what is done here starts it
    await engine.stop(spec.name, 5)
    const taken = docker.spec(spec.command.at(-1)!, { network })
    await engine.create(taken)
    await engine.start(taken.name) // takes the address, and would answer there
    t.is((await engine.inspect(taken.name))!.address, first)
    await comesTrue(async () => (await databases.loadDatabase(db, id))?.status === 'exited')
    await databases.recordDatabaseDesired(db, id, 'running')
    await engine.start(spec.name)
    const second = await addressNow()
    t.not(second, first)
    await comesTrue(async () => (await heard(second)) === 'data')
    t.is(await heard(first), 'ECONNREFUSED')
    await comesTrue(async () => (await databases.loadDatabase(db, id))?.status === 'running')
  } finally {
    ending.abort()
    await watch
  }
})
