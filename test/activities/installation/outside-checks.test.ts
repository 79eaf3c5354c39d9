import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import test from 'ava'
import { checkStore } from '../../../activities/installation/outside-checks.ts'
import { bodiesIn, filesystemStore } from '../../../activities/objects/filesystem.ts'
import type { ObjectStore } from '../../../activities/objects/port.ts'
import { installationMark } from '../../../policy/ids.ts'

const folder = await mkdtemp(join(tmpdir(), 'berth-checks-'))
test.after.always('remove the folder', () => rm(folder, { recursive: true, force: true }))

/** Opens a store of this name with some replaced methods. */
const open =
  (name: string, change: Partial<ObjectStore> = {}) =>
  async () =>
    Object.assign(await filesystemStore(join(folder, name)), change)

async function bodies(name: string): Promise<string[]> {
  const found: string[] = []
  for await (const ids of bodiesIn(join(folder, name))) found.push(...ids)
  return found
}

test('a pair of keys for another store is refused, and leaves nothing in either', async t => {
  t.like(await checkStore(open('new'), open('old'), null), { state: 'REFUSED' })
  t.like(await checkStore(open('old'), open('old'), null), { state: 'accepted' })
  const dead = () => Promise.reject(new Error('the pair before is dead'))
  t.like(await checkStore(open('new'), dead, null), { state: 'accepted' })
  t.deepEqual([await bodies('new'), await bodies('old')], [[], []])
})

test('a store that returns other bytes than were put, or none, is refused', async t => {
  const others = open('others', { read: async (_, _from, length) => Buffer.alloc(length) })
  t.like(await checkStore(others, null, null), {
    state: 'REFUSED',
    why: 'one pair of keys does not read what the other has stored',
  })
  const nothing = open('nothing', { put: async () => ({ size: 64, sha256: '', md5: '', crc32: 0 }) })
  t.like(await checkStore(nothing, null, null), { state: 'REFUSED' })
  t.deepEqual([await bodies('others'), await bodies('nothing')], [[], []])
})

test('the store of another installation is refused before anything is written', async t => {
  const mark = Readable.from([Buffer.from('{"id":"other"}')], { objectMode: false })
  await (await open('marked')()).put(installationMark, mark)
  const put = () => Promise.reject(new Error('it was put into'))
  const verdict = await checkStore(open('marked', { put }), null, 'own')
  t.is(verdict.state, 'REFUSED')
  t.regex(verdict.why ?? '', /another installation/)
  t.like(await checkStore(open('marked'), null, 'other'), { state: 'accepted' })
})
