import test from 'ava'
import { pino } from 'pino'
import type { Bandwidth, LinkedContainer } from '../../activities/bandwidth.ts'
import { type ContainerState, labels } from '../../activities/container-host.ts'
import { BandwidthKeeper } from '../../workers/bandwidth-keeper.ts'
import { testDatabase } from '../kit/database.ts'
import { rows } from '../kit/rows.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

const container = (id: string, { started = 0, role = 'app', running = true, memoryMb = 512 } = {}): ContainerState => ({
  ...{ id, name: id, labels: { [labels.role]: role }, status: running ? 'running' : 'exited', running, exitCode: null },
  ...{ oom: false, startedAt: new Date(started), finishedAt: null, hostPort: null, hostAddress: null },
  process: { pid: 7, memoryMb },
})

async function keeper(hostId: string, limit: Bandwidth['limit']) {
  const { db } = await database
  await rows(db).host(hostId)
  const state = async () => (await db('hosts').where({ id: hostId }).first()).protections.bandwidth
  const open = () => new BandwidthKeeper({ db, bandwidth: { limit }, mbitPer256Mb: 50, hostId, log })
  return { open, state }
}

test('every start of an application gets its rate once; another start, and another host process, get it again', async t => {
  const told: LinkedContainer[] = []
  const { open } = await keeper('starts', async link => void told.push(link))
  const since = () => told.splice(0).map(({ id, mbit }) => `${id} ${mbit}`)
  const first = open()
  const both = [container('a'), container('b', { memoryMb: 256 })]
  await first.see([...both, container('build', { role: 'build' }), container('ended', { running: false })])
  t.deepEqual(since(), ['a 100', 'b 50'])
  await first.see(both)
  t.deepEqual(since(), [], 'what is known costs nothing')
  await first.see([container('a', { started: 1 }), both[1]!])
  t.deepEqual(since(), ['a 100'])
  await open().see(both)
  t.deepEqual(since(), ['a 100', 'b 50'])
})

test('one that cannot be limited keeps none of the others waiting, is tried again, and is told once it lasts', async t => {
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
  t.is(await state(), 'on')
})
