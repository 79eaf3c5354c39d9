import test from 'ava'
import { type DatabaseHost, placeDatabase } from '../../../policy/databases/placement.ts'

const [best, second] = ['berth/mongo:8', 'berth/mongo-stand-in:8']
const images = [best, second]
const need = { memoryMb: 1024, diskMb: 4096 }
const never = 'No registry answers.'

const host = (id: string, states: Record<string, string>, changes: Partial<DatabaseHost> = {}): DatabaseHost => ({
  ...{ id, draining: false, reachable: true, memoryMb: 4096, diskMb: 100_000, reservedMemoryMb: 0, reservedDiskMb: 0 },
  images: states,
  ...changes,
})
const ready = (id: string, changes: Partial<DatabaseHost> = {}) => host(id, { [best]: 'ready' }, changes)
const full = { reservedMemoryMb: 4000 }
const later = { ok: false, code: 'CLUSTER_MAINTENANCE_TRY_LATER' } as const
const failed = { ok: false, code: 'CLUSTER_SELECTION_FAILED' } as const

test('of the hosts with the image, the one with the most free memory is chosen', t => {
  const hosts = [ready('a', { reservedMemoryMb: 1024 }), ready('b'), host('c', {}, { memoryMb: 9999 })]
  t.deepEqual(placeDatabase(hosts, need, images), { ok: true, hostId: 'b', image: best })
})

test('a second choice of image is taken only where no host with room has the first', t => {
  const roomy = host('roomy', { [best]: never, [second]: 'ready' }, { memoryMb: 9999 })
  t.deepEqual(placeDatabase([ready('a'), roomy], need, images), { ok: true, hostId: 'a', image: best })
  t.deepEqual(placeDatabase([ready('a', full), roomy], need, images), { ok: true, hostId: 'roomy', image: second })
  t.deepEqual(placeDatabase([roomy], need, [best]), { ...failed, reason: never })
})

test('among them the host with most of the owner’s applications comes first, if it has room and the image', t => {
  const roomy = ready('roomy', { memoryMb: 9999 })
  const place = (...hosts: DatabaseHost[]) => placeDatabase([roomy, ...hosts], need, images)
  t.like(place(ready('own', { related: 1 })), { hostId: 'own' })
  t.like(place(ready('few', { related: 1, memoryMb: 9999 }), ready('many', { related: 2 })), { hostId: 'many' })
  t.like(place(ready('b', { related: 2 }), ready('a', { related: 2 })), { hostId: 'a' })
  for (const changes of [full, { draining: true }, { reachable: false }])
    t.like(place(ready('own', { related: 1, ...changes })), { hostId: 'roomy' })
  t.like(place(host('own', { [second]: 'ready' }, { related: 1 })), { hostId: 'roomy', image: best })
})

test('while a host with room fetches the image the caller may try again; a full one changes nothing', t => {
  t.deepEqual(placeDatabase([host('a', {})], need, images), later)
  t.deepEqual(placeDatabase([host('a', {}), ready('b', full)], need, images), later)
  t.deepEqual(placeDatabase([host('a', {}, full)], need, images), failed)
  t.deepEqual(placeDatabase([host('a', {}, full), ready('b', full)], need, images), failed)
})

test('draining and unreachable hosts are never chosen; with only such hosts the platform is in maintenance', t => {
  const away = [ready('silent', { reachable: false }), ready('draining', { draining: true })]
  t.deepEqual(placeDatabase(away, need, images), later)
  t.deepEqual(placeDatabase([], need, images), later)
  t.deepEqual(placeDatabase([...away, ready('full', full)], need, images), failed)
})

test('an image that no host will ever have is refused with the reason', t => {
  const states = { [best]: never, [second]: 'Disabled.' }
  t.deepEqual(placeDatabase([host('a', states)], need, images), { ...failed, reason: never })
  t.deepEqual(placeDatabase([host('a', { [best]: never }), ready('b', full)], need, [best]), failed, 'one has it')
})

test('a customer reads what is missing, and neither the words of the network nor the remedy', t => {
  const words = 'The image mongo is missing, cannot be pulled and cannot be made'
  const states = {
    [best]: `${words}: lookup registry on 10.0.0.2:53: no such host\nSet MONGO_STAND_IN: then it is made.`,
  }
  t.deepEqual(placeDatabase([host('a', states)], need, [best]), { ...failed, reason: `${words}.` })
  t.deepEqual(placeDatabase([host('a', { [best]: `${words}.\nA remedy.` })], need, [best]), {
    ...failed,
    reason: `${words}.`,
  })
})
