import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import {
  dependenciesOf,
  isPreparedFor,
  lendDependencies,
  lenderOf,
  type ReleaseFolders,
  releaseFolders,
  writePrepared,
} from '../../../activities/releases/files.ts'

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

test('a release whose lender and own dependencies are missing does not start without them, and one that needs none does', async t => {
  const volume = await mkdtemp(join(tmpdir(), 'berth-release-'))
  t.teardown(() => rm(volume, { recursive: true }))
  const [lender, borrower, older] = [1, 2, 3].map(number => releaseFolders(volume, number)) as [
    ReleaseFolders,
    ReleaseFolders,
    ReleaseFolders,
  ]
  for (const { root } of [borrower, older]) await mkdir(root, { recursive: true })
  await mkdir(lender.dependencies, { recursive: true })
  await writePrepared(borrower, { install: null, dependenciesOf: 1, isLent: true })
  await writePrepared(older, { install: null, dependenciesOf: 1 })
  t.is(await dependenciesOf(volume, 2), lender.dependencies)
  await rm(lender.root, { recursive: true })
  t.is(await lenderOf(volume, 2), 'lost')
  const failure = await t.throwsAsync<ApplicationFailure>(dependenciesOf(volume, 2))
  t.is(failure?.type, 'ACTION_FAILED')
  t.is(await dependenciesOf(volume, 3), null, 'older versions also named releases without any')
  await mkdir(borrower.dependencies)
  t.is(await dependenciesOf(volume, 2), borrower.dependencies)
  await lendDependencies(volume, 3, 2)
  t.is(await dependenciesOf(volume, 3), borrower.dependencies)
  await rm(borrower.dependencies, { recursive: true })
  await t.throwsAsync(dependenciesOf(volume, 3))
})
