import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import type { Bandwidth, LinkedContainer } from '../../../activities/bandwidth/port.ts'
import { type ContainerState, labels } from '../../../activities/containers/port.ts'
import { BandwidthKeeper, BandwidthStates } from '../../../workers/host/bandwidth-keeper.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

const container = (
  id: string,
  { pid = process.pid, role = 'app', running = true, memoryMb = 512 } = {},
): ContainerState => ({
  ...{
    id,
    name: id,
    labels: { [labels.role]: role, [labels.app]: id },
    status: running ? 'running' : 'exited',
    running,
    exitCode: null,
  },
  ...{ oom: false, startedAt: new Date(0), finishedAt: null, hostPort: null, hostAddress: null, address: null },
  process: { pid, memoryMb },
})

/** A program's first process, which can end. */
async function started(t: ExecutionContext) {
  const child = spawn('sleep', ['600'], { stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const end = async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return { pid: child.pid!, end }
}

async function keeper(hostId: string, limit: Bandwidth['limit']) {
  const { db } = await database
  await rows(db).host(hostId)
  const state = async () => (await db('hosts').where({ id: hostId }).first()).protections.bandwidth
  const known = new Map<string, ContainerState>()
  const asked: string[] = []
  const inspect = async (name: string) => {
    asked.push(name)
    return known.get(name) ?? null
  }
  const hostStates = new BandwidthStates(db, hostId)
  const open = ({ states = new BandwidthStates(db, hostId) } = {}) => {
    let clock = 0
    const options = { states, engine: { inspect }, bandwidth: { limit }, mbitPer256Mb: 50, log, now: () => clock }
    const keeper = new BandwidthKeeper(options)
    return {
      see(containers: ContainerState[], ids?: ReadonlySet<string>) {
        clock += 5000
        for (const one of containers) known.set(one.name, one)
        return keeper.see(containers, ids)
      },
    }
  }
  return { open, state, asked, hostStates }
}

test('every start of an application is limited once; another start, and another host process, limit it again', async t => {
  const actual: LinkedContainer[] = []
  const { open, asked } = await keeper('starts', async link => void actual.push(link))
  const since = () => actual.splice(0).map(({ id, mbit }) => `${id} ${mbit}`)
  const first = open()
  const life = await started(t)
  const both = [container('a', { pid: life.pid }), container('b', { memoryMb: 256 })]
  await first.see([...both, container('build', { role: 'build' }), container('ended', { running: false })])
  t.deepEqual(since(), ['a 100', 'b 50'])
  asked.length = 0
  await first.see(both)
  t.deepEqual([since(), asked], [[], []], 'what is known costs nothing')
  await life.end()
  const next = [container('a', { pid: (await started(t)).pid }), both[1]!]
  await first.see(next)
  t.deepEqual(since(), ['a 100'])
  await open().see(next)
  t.deepEqual(since(), ['a 100', 'b 50'])
})

test('a container that cannot be limited delays no others, is retried, and is reported if the failure lasts', async t => {
  let refuses = true
  const tried: string[] = []
  const { open, state } = await keeper('refuses', async ({ id }) => {
    tried.push(id)
    if (refuses && id === 'a') throw new Error('no such device')
  })
  const one = open()
  const both = [container('a'), container('b')]
  await one.see(both)
  t.deepEqual([tried, await state()], [['a', 'b'], undefined], 'it may just have ended')
  await one.see(both)
  t.deepEqual([tried, await state()], [['a', 'b', 'a'], 'BROKEN: no such device'])
  refuses = false
  await one.see(both)
  await one.see(both)
  t.is(await state(), 'on')
})

test('of two keepers of a host, one that has recovered does not hide that the other has a failure', async t => {
  const refused = new Set(['a', 'b'])
  const { open, state, hostStates } = await keeper('both', async ({ id }) => {
    if (refused.has(id)) throw new Error(`no device ${id}`)
  })
  const [one, other] = [open({ states: hostStates }), open({ states: hostStates })]
  const look = async () => {
    await one.see([container('a')])
    await other.see([container('b')])
  }
  await look()
  await look()
  t.is(await state(), 'BROKEN: no device a')
  refused.delete('a')
  await look()
  await look()
  t.is(await state(), 'BROKEN: no device b')
  refused.delete('b')
  for (let round = 0; round < 4; round++) await look()
  t.is(await state(), 'on')
})

test('a container that can never be limited is retried less and less often, up to once a minute; another start is tried immediately', async t => {
  const tried: number[] = []
  let round = 0
  const { open, asked } = await keeper('hopeless', async () => {
    tried.push(round)
    throw new Error('no such device')
  })
  const one = open()
  for (round = 1; round <= 60; round++) await one.see([container('a')])
  t.deepEqual(tried, [1, 2, 4, 8, 15, 27, 39, 51], 'rounds of 5 s: after 4, 8, 16, 32, 60 s')
  t.is(asked.length, tried.length, 'nor is the engine asked in between')
  tried.length = 0
  await one.see([container('b')])
  await one.see([container('a')])
  t.deepEqual(tried, [61, 61], 'one that was missing starts over')
})

test('containers seen during a round come after it, and a list of some applications leaves the others unchanged', async t => {
  let release = () => {}
  const held = new Promise<void>(go => {
    release = go
  })
  const actual: string[] = []
  let refuses = true
  const { open } = await keeper('some', async ({ id }) => {
    actual.push(id)
    if (id === 'a') await held
    if (refuses && id === 'c') throw new Error('no such device')
  })
  const one = open()
  const first = one.see([container('a'), container('b')])
  const second = one.see([container('c')], new Set(['c']))
  release()
  await Promise.all([first, second])
  t.deepEqual(actual, ['a', 'b', 'c'])
  refuses = false
  await one.see([], new Set()) // a round in which nothing has changed
  await one.see([container('d')], new Set(['d']))
  t.deepEqual(actual, ['a', 'b', 'c', 'c', 'd'], 'what was refused is tried again, what is known is not')
})
