import { mkdir, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { inputFiles, layInputs } from '../../../activities/installs/inputs.ts'
import { releaseFolders } from '../../../activities/releases/files.ts'
import { MiB } from '../../../lib/bytes.ts'
import { ownFolder } from '../../kit/folders.ts'
import { demandRoot } from '../../kit/root.ts'

test('the files that a step depends on are read up to 4 MiB each and 32 MiB in all, or it is said which cannot be', async t => {
  const folder = ownFolder(t)
  const fileOf = async (name: string, bytes: number) => {
    await writeFile(join(folder, name), '')
    await truncate(join(folder, name), bytes)
    return name
  }
  await mkdir(join(folder, 'vendor'))
  await symlink('/etc/hostname', join(folder, 'vendor/link.tgz'))
  const names = await Promise.all(Array.from({ length: 8 }, (_, n) => fileOf(`vendor/${n}.tgz`, 4 * MiB)))
  const files = await inputFiles([folder], names)
  t.deepEqual(
    [...(files as ReadonlyMap<string, Buffer>)].map(([name, { length }]) => [name, length]),
    names.map(name => [name, 4 * MiB]),
  )
  const more = [...names, await fileOf('package.json', 1)]
  t.deepEqual(await inputFiles([folder], more), { because: 'the files that it depends on are larger than 32 MiB' })
  await fileOf('vendor/large.tgz', 4 * MiB + 1)
  for (const name of ['vendor/large.tgz', 'vendor/none.tgz', 'none/none.tgz', 'vendor/link.tgz', 'vendor'])
    t.deepEqual(await inputFiles([folder], [name]), { because: `${name} is missing, or larger than 4 MiB` })
})

test('files that a step depends on, and every folder above them, belong to the application', async t => {
  demandRoot()
  const folders = releaseFolders(ownFolder(t), 1)
  await mkdir(folders.root, { recursive: true })
  const names = ['package.json', 'vendor/a.tgz', 'vendor/deep/b.tgz']
  await layInputs(folders, new Map(names.map(name => [name, Buffer.from(name)])), { uid: 10_777, gid: 10_778 })
  for (const name of ['.', ...names, 'vendor', 'vendor/deep']) {
    const { uid, gid } = await stat(join(folders.install, name))
    t.deepEqual([uid, gid], [10_777, 10_778], name)
  }
})
