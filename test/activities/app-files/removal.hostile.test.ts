import { fork } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { emptySource, keepDependencies, releaseFolders } from '../../../activities/releases/files.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { give, lay, ownFolder } from '../../kit/folders.ts'

const uid = process.getuid?.() === 0 ? 10_779 : null

/** Folders that a host removes while a program that should have ended still writes to them; nothing outside may be removed. */
async function removing(
  t: ExecutionContext,
  where: 'source' | 'build' | 'files',
  remove: (root: string) => Promise<unknown>,
) {
  const root = ownFolder(t)
  const outside = ownFolder(t)
  const folders = releaseFolders(join(root, 'app'), 1)
  lay(folders.source, {})
  lay(folders.build, {})
  lay(folders.files, {})
  if (uid !== null) for (const folder of [folders.root, folders.files]) give(folder, uid)
  const racer = fork(new URL('../../kit/children/removal-racer.ts', import.meta.url), [folders[where], outside], {
    execArgv: ['--import', 'tsx'],
    ...(uid === null ? {} : { uid, gid: uid }),
  })
  t.teardown(() => racer.kill('SIGKILL'))
  const [files] = (await once(racer, 'message')) as [number]
  lay(outside, Object.fromEntries(Array.from({ length: files }, (_, index) => [`${index}`, 'precious'])))
  racer.send('go')
  await remove(root)
  racer.kill('SIGKILL')
  t.is(fs.readdirSync(outside).length, files)
}

test.serial('a release that is prepared again', async t => {
  await removing(t, 'source', root => emptySource(releaseFolders(join(root, 'app'), 1), null))
})

test.serial('the output of an install step', async t => {
  await removing(t, 'build', root => {
    const folders = releaseFolders(join(root, 'app'), 1)
    return keepDependencies(folders, folders.build, 'node_modules')
  })
})

test.serial('a volume', async t => {
  await removing(t, 'files', async root => {
    await folderVolumes(root).remove('app')
    t.false(fs.existsSync(join(root, 'app')))
  })
})
