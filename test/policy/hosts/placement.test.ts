import test from 'ava'
import {
  diskPromise,
  type HostCapacity,
  isOtherPromise,
  placeApp,
  promisedDiskMb,
} from '../../../policy/hosts/placement.ts'

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

test('a host with more of what the new resource is used with comes before one with more memory, if it has room', t => {
  const roomy = host('roomy', { memoryMb: 99_999 })
  t.deepEqual(placeApp([roomy, host('own', { related: 1 })], need), { ok: true, hostId: 'own' })
  t.deepEqual(placeApp([host('few', { related: 1, memoryMb: 9999 }), host('most', { related: 2 })], need), {
    ok: true,
    hostId: 'most',
  })
  t.deepEqual(placeApp([roomy, host('own', { related: 1, reservedMemoryMb: 4000 })], need), {
    ok: true,
    hostId: 'roomy',
  })
})

test('the last MB may be reserved, one more may not', t => {
  t.true(placeApp([host('a', { reservedMemoryMb: 3584 })], need).ok)
  t.deepEqual(placeApp([host('a', { reservedMemoryMb: 3585 })], need), { ok: false, code: 'CLUSTER_SELECTION_FAILED' })
})

test('disk is reserved like memory', t => {
  t.deepEqual(placeApp([host('a', { reservedDiskMb: 97_953 })], need), { ok: false, code: 'CLUSTER_SELECTION_FAILED' })
})

test('a host promises what is free and what its volumes have, less a tenth of its disk, 20 GB at most', t => {
  // 100 GB, of which the system, the platform and the images use 40.
  const used = { wholeMb: 100_000, freeMb: 60_000, volumesMb: 0, cachesMb: 6000, cachedMb: 0 }
  t.is(promisedDiskMb(used), 44_000)
  t.is(promisedDiskMb({ ...used, freeMb: 50_000, volumesMb: 10_000 }), 44_000, 'what volumes write was promised before')
  t.is(promisedDiskMb({ ...used, freeMb: 58_000, cachedMb: 2000 }), 44_000, 'and what caches hold was never')
  t.is(promisedDiskMb({ ...used, freeMb: 50_000 }), 34_000, 'what anything else writes is not there')
  t.is(promisedDiskMb({ ...used, freeMb: 3000 }), 0)
  t.is(promisedDiskMb({ ...used, wholeMb: 1_000_000, freeMb: 900_000 }), 900_000 - 6000 - diskPromise.maxReserveMb)
  t.is(promisedDiskMb({ ...used, wholeMb: 8000, freeMb: 4000, cachesMb: 800 }), 2400, 'a small machine still places')
})

test('a host whose volumes have promises above its disk keeps them, and gets nothing new', t => {
  const full = host('a', { diskMb: 10_000, reservedDiskMb: 12_000 })
  t.deepEqual(placeApp([full], need), { ok: false, code: 'CLUSTER_SELECTION_FAILED' })
  t.true(placeApp([full], { ...need, diskMb: 0 }).ok, 'more memory for a volume that is large enough')
})

test('the promised disk changes in steps', t => {
  t.false(isOtherPromise(50_000, 49_001))
  t.true(isOtherPromise(50_000, 49_000))
  t.true(isOtherPromise(50_000, 51_000))
  t.false(isOtherPromise(1000, 937))
  t.true(isOtherPromise(1000, 936))
  t.true(isOtherPromise(0, 64))
})

test('draining and unreachable hosts are never chosen; with only such hosts the platform is in maintenance', t => {
  const silent = host('silent', { reachable: false })
  const draining = host('draining', { draining: true })
  t.deepEqual(placeApp([silent, draining, host('small', { memoryMb: 600 })], need), { ok: true, hostId: 'small' })
  t.deepEqual(placeApp([silent, draining], need), { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
  t.deepEqual(placeApp([], need), { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' })
})
