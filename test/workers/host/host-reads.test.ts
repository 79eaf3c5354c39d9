import { randomBytes } from 'node:crypto'
import test from 'ava'
import { labels } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { logSlots } from '../../../policy/hosts/host-slots.ts'
import { serveHost } from '../../../workers/host/server/host-server.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { log } from '../../kit/platform/platform.ts'

test('one account reads a limited number of logs of a host concurrently, alongside those of others', async t => {
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
