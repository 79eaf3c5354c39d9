import test from 'ava'
import { type HostCapacity, placeApp } from '../../../policy/hosts/placement.ts'

const host = (id: string, changes: Partial<HostCapacity> = {}): HostCapacity => ({
  id,
  draining: false,
  reachable: true,
  memoryMb: 4096,
  diskMb: 100_000,
  reservedMemoryMb: 0,
  reservedDiskMb: 0,
  ...changes,
})
const need = { memoryMb: 512, diskMb: 2048 }

test('the host with the most free memory is chosen', t => {
  const hosts = [
    host('a', { reservedMemoryMb: 1024 }),
    host('b', { reservedMemoryMb: 512 }),
    host('c', { memoryMb: 2048 }),
  ]
  t.deepEqual(placeApp(hosts, need), { ok: true, hostId: 'b' })
})

test('the last MB may be reserved, one more may not', t => {
  t.true(placeApp([host('a', { reservedMemoryMb: 3584 })], need).ok)
  t.deepEqual(placeApp([host('a', { reservedMemoryMb: 3585 })], need), { ok: false, code: 'CLUSTER_SELECTION_FAILED' })
})

test('disk is reserved like memory', t => {
  t.deepEqual(placeApp([host('a', { reservedDiskMb: 97_953 })], need), { ok: false, code: 'CLUSTER_SELECTION_FAILED' })
})

test('draining and unreachable hosts are never chosen; with only such hosts the platform is in maintenance', t => {
  const silent = host('silent', { reachable: false })
  const draining = host('draining', { draining: true })
  t.deepEqual(placeApp([silent, draining, host('small', { memoryMb: 600 })], need), { ok: true, hostId: 'small' })
  t.deepEqual(placeApp([silent, draining], need), { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
  t.deepEqual(placeApp([], need), { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
})
