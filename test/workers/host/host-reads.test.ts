import { randomBytes } from 'node:crypto'
import test, { type ExecutionContext } from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { transaction } from '../../../db/database.ts'
import type { DeploymentState } from '../../../db/deploys/deployments.ts'
import { queueDeploy } from '../../../db/deploys/deploys.ts'
import { logSlots } from '../../../policy/hosts/host-slots.ts'
import { serveHost } from '../../../workers/host/server/host-server.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { log } from '../../kit/platform/platform.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('an account reads a limited number of logs of a host concurrently, alongside those of others', async t => {
  t.deepEqual(logSlots, { atOnce: 6, perSubject: 2 })
  const engine = new FakeContainerHost({ '-': {} })
  engine.networks.add('n')
  const volumes = { usedBytes: async () => 0 } as never
  const own = { db: null as never, engine, volumes, hostId: 'h', locks: appLocks() }
  const options = { ...own, key: 'k', address: '127.0.0.1', port: 0, log }
  const { url, server } = await serveHost(options)
  const app = async (owner: string) => {
    const name = randomBytes(12).toString('hex')
    const own = { [labels.host]: 'h', [labels.app]: name, [labels.owner]: owner, [labels.release]: '1' }
    const spec = { name, labels: { ...own, [labels.role]: 'app' }, command: ['-'], network: 'n', memoryMb: 1 }
    await engine.create(spec as never)
    return name
  }
  const names = await Promise.all(Array.from({ length: 5 }, () => app('ana')))
  const other = await app('bob')
  let answer = () => {}
  const answered = new Promise<void>(resolve => {
    answer = resolve
  })
  const reading = new Set<string>()
  engine.logs = async name => {
    reading.add(name)
    if (name !== other) await answered
    return 'printed'
  }
  t.teardown(() => {
    answer()
    server.close()
    server.closeAllConnections()
  })
  const read = (name: string) => fetch(`${url}/apps/${name}/logs`, { headers: { authorization: 'Bearer k' } })
  const all = names.map(read)
  await comesTrue(() => reading.size >= logSlots.perSubject)
  t.is(await (await read(other)).text(), 'printed')
  t.is(reading.size, logSlots.perSubject + 1)
  answer()
  for (const one of all) t.true([200, 503].includes((await one).status))
})

/** An application whose first release serves, and whose second one is being deployed; `read` resolves to the containers that are asked. */
async function deploying(t: ExecutionContext) {
  const { db } = await database
  const make = rows(db)
  const hostId = randomBytes(4).toString('hex')
  await make.host(hostId)
  const { id: ownerId } = await make.user()
  const { app } = await make.app(ownerId)
  await db('apps').where({ id: app.id }).update({ release: 1 })
  const queued = await transaction(db, trx =>
    queueDeploy(trx, {
      ...{ appId: app.id, ownerId, actor: ownerId, trigger: 'webhook', revision: 'a'.repeat(40) },
      ...{ branch: 'main', cloneUrl: 'http://git.example/shop.git' },
    }),
  )
  await db('deployments').where({ id: queued!.deploymentId }).update({ release: 2, state: 'restarting' })
  const engine = new FakeContainerHost({ first: {}, second: {} })
  engine.networks.add('n')
  const volumes = { usedBytes: async () => 0 } as never
  const own = { db, engine, volumes, hostId, locks: appLocks() }
  const { url, server } = await serveHost({ ...own, key: 'k', address: '127.0.0.1', port: 0, log })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const start = async (release: string, program: string) => {
    const own = { [labels.host]: hostId, [labels.app]: app.id, [labels.owner]: ownerId, [labels.release]: release }
    const spec = { name: `${app.id}-${release}`, labels: { ...own, [labels.role]: 'app' }, command: [program] }
    await engine.create({ ...spec, network: 'n', memoryMb: 1 } as never)
    await engine.start(spec.name)
  }
  await start('1', 'first')
  await start('2', 'second')
  const asked: string[] = []
  engine.stats = async name => {
    asked.push(`stats ${name.slice(-1)}`)
    return null
  }
  engine.logs = async name => {
    asked.push(`logs ${name.slice(-1)}`)
    return ''
  }
  const read = async () => {
    for (const what of ['stats', 'logs'])
      await fetch(`${url}/apps/${app.id}/${what}`, { headers: { authorization: 'Bearer k' } })
    return asked.splice(0)
  }
  const end = (state: DeploymentState) => db('deployments').where({ id: queued!.deploymentId }).update({ state })
  return { db, app, engine, read, end }
}

test('while a new version waits at its gate, the state is of the one that serves, and logs are of the new one', async t => {
  const { db, app, engine, read, end } = await deploying(t)
  t.deepEqual(await read(), ['stats 1', 'logs 2'])
  await end('error')
  t.deepEqual(await read(), ['stats 1', 'logs 1'], 'it has failed')
  await end('success')
  await db('apps').where({ id: app.id }).update({ release: 2 })
  t.deepEqual(await read(), ['stats 2', 'logs 2'], 'it serves')
  await engine.remove(`${app.id}-2`)
  t.deepEqual(await read(), ['stats 1', 'logs 1'], 'nothing serves')
})

test('while the old version of a program without a port is stopped, the state is of the new one', async t => {
  const { app, engine, read } = await deploying(t)
  await engine.stop(`${app.id}-1`, 1)
  t.deepEqual(await read(), ['stats 2', 'logs 2'])
})

test('files of a volume without a disk are counted once for all who ask for its status; a disk is always asked', async t => {
  for (const [quota, counts] of [
    ['checked', 1],
    ['enforced', 4],
  ] as const) {
    let counted = 0
    let answer = () => {}
    const answered = new Promise<void>(resolve => {
      answer = resolve
    })
    const usedBytes = async () => {
      counted++
      await answered
      return 4096
    }
    const engine = new FakeContainerHost({})
    const own = { db: null as never, engine, volumes: { quota, usedBytes } as never, hostId: 'h', locks: appLocks() }
    const { url, server } = await serveHost({ ...own, key: 'k', address: '127.0.0.1', port: 0, log })
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    const read = async () => {
      const answer = await fetch(`${url}/apps/${'a'.repeat(24)}/stats`, { headers: { authorization: 'Bearer k' } })
      return ((await answer.json()) as { storageBytes: number }).storageBytes
    }
    const concurrent = [read(), read(), read()]
    await comesTrue(() => counted >= Math.min(counts, 3))
    answer()
    t.deepEqual(await Promise.all(concurrent), [4096, 4096, 4096])
    t.is(await read(), 4096)
    t.is(counted, counts, quota)
  }
})
