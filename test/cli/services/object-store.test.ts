import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import test from 'ava'
import { openObjectStore } from '../../../activities/objects/select.ts'
import { loadInstallation, openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { ownObjectStore } from '../../../cli/services/object-store.ts'
import { newId } from '../../../policy/ids.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-own-store-'))
chmodSync(folder, 0o711)
test.after.always(() => rmSync(folder, { recursive: true, force: true }))

const open = (name: string, own: Record<string, string>) => {
  const env = { BERTH_DATA: join(folder, name), ...own }
  return openInstallation(env, openDataPlace(env))
}

test('OBJECT_STORE=s3rver starts a store that stores segments, and that later commands reach', async t => {
  const installation = await open('own', { OBJECT_STORE: 's3rver' })
  const { runFolder, logFolder } = openDataPlace({ BERTH_DATA: installation.dataDir })
  const supervisor = new Supervisor({ runFolder, logFolder, say: () => {} })
  t.teardown(() => supervisor.stop())
  await supervisor.start(ownObjectStore(installation)!)
  const id = newId()
  const store = await openObjectStore(installation.config.objectStore)
  await store.put(id, Readable.from([Buffer.from('kept')], { objectMode: false }))
  const later = loadInstallation({ BERTH_DATA: installation.dataDir })
  t.deepEqual(later.config.objectStore, installation.config.objectStore)
  const body = await (await openObjectStore(later.config.objectStore)).get(id)
  t.is(await text(body as Readable), 'kept')
})

test('nothing is started for a folder, or for a store elsewhere', async t => {
  t.is(ownObjectStore(await open('folder', {})), null)
  const account = { S3_STORE_ACCESS_KEY_ID: 'a', S3_STORE_SECRET_ACCESS_KEY: 'b' }
  const elsewhere = { OBJECT_STORE: 's3', S3_STORE_ENDPOINT: 'http://192.0.2.1:9000', ...account }
  t.is(ownObjectStore(await open('elsewhere', elsewhere)), null)
})
