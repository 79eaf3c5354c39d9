import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { isPreparedFor, releaseFolders } from '../../../activities/releases/files.ts'

test('a release is prepared for the deployment in its marker, or without one while it can be undone', async t => {
  const volume = await mkdtemp(join(tmpdir(), 'berth-release-'))
  t.teardown(() => rm(volume, { recursive: true }))
  const folders = releaseFolders(volume, 3)
  await mkdir(folders.root, { recursive: true })
  const prepared = { install: null, dependenciesOf: null }
  t.true(await isPreparedFor(folders, { ...prepared, deploymentId: 'd' }, 'd'))
  t.false(await isPreparedFor(folders, { ...prepared, deploymentId: 'd' }, 'other'))
  t.false(await isPreparedFor(folders, prepared, 'd'), 'it may be of a time that the database has forgotten')
  for (const name of ['journal', 'before', 'first']) {
    await writeFile(join(folders.root, name), '')
    t.true(await isPreparedFor(folders, prepared, 'd'), name)
    await rm(join(folders.root, name))
  }
})
