import test from 'ava'
import { bridgeName } from '../../../../activities/containers/network-names.ts'
import { type ListedContainer, labels } from '../../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../../activities/containers/spec.ts'
import { databaseJobRole } from '../../../../activities/databases/names.ts'
import type { Admission } from '../../../../activities/firewall/port.ts'
import { admitDatabases, databaseAdmissions } from '../../../../workers/host/databases/database-admissions.ts'

const own = { [labels.role]: 'database', [labels.owner]: 'ana', [labels.port]: '20001', [labels.host]: 'h1' }
const container = (changes: Partial<ListedContainer> = {}): ListedContainer => ({
  ...{ id: 'c', name: 'n', status: 'running', running: true, labels: own },
  ...{ hostPort: 20001, hostAddress: '127.0.0.1', address: '10.1.0.2' },
  ...changes,
})
const bridgeOf = (ownerId: string) => bridgeName(tenantNetwork(ownerId, 'h1'))

test('each running database is admitted at its address and port, to the network of its owner', t => {
  const bob = container({ address: '10.1.1.2', labels: { ...own, [labels.owner]: 'bob', [labels.port]: '20002' } })
  t.deepEqual(databaseAdmissions([container(), bob], 'h1'), [
    { bridge: bridgeOf('ana'), address: '10.1.0.2', port: 20001 },
    { bridge: bridgeOf('bob'), address: '10.1.1.2', port: 20002 },
  ])
  t.not(bridgeOf('ana'), bridgeOf('bob'))
})

test('a container that does not run, has no address or is not a database is not admitted', t => {
  const others: Partial<ListedContainer>[] = [
    { running: false, status: 'exited' },
    { address: null },
    { labels: { ...own, [labels.role]: 'app' } },
    { labels: { ...own, [labels.role]: databaseJobRole } },
    { labels: { [labels.role]: 'database', [labels.port]: '20001' } },
    ...['', '0', '1.5', 'x', '65536'].map(port => ({ labels: { ...own, [labels.port]: port } })),
  ]
  for (const changes of others) t.deepEqual(databaseAdmissions([container(changes)], 'h1'), [], JSON.stringify(changes))
})

test('a call resolves once what ran before it is admitted; concurrent calls share a turn', async t => {
  let present = [container()]
  const admitted: (readonly Admission[])[] = []
  const waiting: (() => void)[] = []
  const admit = admitDatabases({
    engine: { list: async () => present },
    firewall: {
      async admit(admissions) {
        await new Promise<void>(done => waiting.push(done))
        admitted.push(admissions)
      },
    },
    hostId: 'h1',
  })
  const turn = async () => {
    for (; waiting.length === 0; ) await new Promise(setImmediate)
    waiting.shift()!()
  }
  const first = admit()
  await new Promise(setImmediate)
  present = [container({ address: '10.1.0.3' })]
  const later = [admit(), admit()]
  await turn()
  await first
  await turn()
  await Promise.all(later)
  t.deepEqual(
    admitted.map(all => all.map(({ address }) => address)),
    [['10.1.0.2'], ['10.1.0.3']],
  )
  t.is(waiting.length, 0)
})

test('without a firewall nothing is admitted', async t => {
  await t.notThrowsAsync(admitDatabases({ engine: { list: async () => [container()] }, firewall: null, hostId: 'h1' }))
})
