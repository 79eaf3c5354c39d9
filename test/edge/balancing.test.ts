import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { comesTrue } from '../kit/comes-true.ts'
import { ask, type Origin, startOrigin } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

const address = '127.0.0.1'
const host = 'group.example.org'
const labels = ['one', 'two', 'three'] as const
const memberOf = (label: string) => `${label}.apps.localhost`

/** Three members that answer after `ms` with their name, behind one custom name. */
async function group(t: { teardown(work: () => unknown): void }, ms: number) {
  const proxy = await startProxy({ EDGE_CONNECTIONS_PER_ADDRESS: '1000' })
  const answered = new Map<string, number>(labels.map(label => [label, 0]))
  const listener = (label: string): Parameters<typeof startOrigin>[0] => {
    return async (incoming, answer) => {
      await sleep(ms)
      if (!incoming.socket.destroyed) answered.set(label, answered.get(label)! + 1)
      answer.end(label)
    }
  }
  const origins = new Map<string, Origin>()
  for (const label of labels) {
    const origin = await startOrigin(listener(label))
    origins.set(label, origin)
    await proxy.edge.setRoute({ host: memberOf(label), appId: label, address, port: origin.port })
  }
  t.teardown(async () => {
    await proxy.stop()
    await Promise.all([...origins.values()].map(origin => origin.stop()))
  })
  const setMembers = (members: readonly string[]) => proxy.edge.setName({ host, members: members.map(memberOf) })
  await setMembers(labels)
  return { proxy, answered, origins, setMembers }
}

/** Requests on `connections` connections at a time, until it is ended; resolves to the statuses that were not 200. */
function load(port: number, connections: number) {
  const failures: unknown[] = []
  let running = true
  let count = 0
  const workers = Array.from({ length: connections }, async () => {
    while (running) {
      const { status } = await ask(port, host).catch(error => ({ status: error.code }))
      if (status !== 200) failures.push(status)
      count++
    }
  })
  return {
    count: () => count,
    async end() {
      running = false
      await Promise.all(workers)
      return failures
    },
  }
}

test('members get about equal shares of slow requests', async t => {
  const { proxy, answered } = await group(t, 20)
  const asked = load(proxy.port, 24)
  await comesTrue(() => asked.count() >= 600)
  t.deepEqual(await asked.end(), [])
  const shares = labels.map(label => answered.get(label)! / asked.count())
  t.log(shares.map(share => share.toFixed(2)).join(' '))
  for (const share of shares) t.true(share > 0.25 && share < 0.42, `${shares}`)
})

test('a member that does not get on with its requests gets no more of them than the others have open', async t => {
  const { proxy, origins } = await group(t, 5)
  const held: ServerResponse[] = []
  const { server } = origins.get('two')!
  server.removeAllListeners('request').on('request', (_, answer) => held.push(answer))
  const asked = load(proxy.port, 16)
  await comesTrue(() => asked.count() >= 300)
  t.true(held.length > 0 && held.length < 16, `${held.length} of 16 wait for it`)
  server.removeAllListeners('request').on('request', (_, answer) => answer.end('two'))
  for (const answer of held) answer.end('two')
  t.deepEqual(await asked.end(), [])
})

test('a member that dies under load loses no GET; it gets requests again once it is back, and none once it is removed', async t => {
  const { proxy, answered, origins, setMembers } = await group(t, 5)
  const asked = load(proxy.port, 12)
  const more = async (count: number) => {
    const before = asked.count()
    await comesTrue(() => asked.count() >= before + count)
  }
  for (let turn = 0; turn < 3; turn++) {
    await more(60)
    const dead = origins.get('two')!
    const listeners = dead.server.listeners('request') as Parameters<typeof startOrigin>[0][]
    await dead.stop()
    const before = answered.get('two')
    await more(100)
    t.is(answered.get('two'), before)
    dead.server.listen(dead.port, address)
    t.is(listeners.length, 1)
    await comesTrue(() => answered.get('two')! > before! + 5)
  }
  await setMembers(['one', 'three'])
  await more(24) // what was sent before is over
  const before = answered.get('two')
  await more(100)
  t.is(answered.get('two'), before)
  t.deepEqual(await asked.end(), [])
})
