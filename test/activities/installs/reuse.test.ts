import { createHash } from 'node:crypto'
import { chmod, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { buildContainerName } from '../../../activities/containers/spec.ts'
import type { InstallCache } from '../../../activities/installs/port.ts'
import { dependenciesOf, exists, releaseFolders, writePrepared } from '../../../activities/releases/files.ts'
import { type Files, installingHosts, npmFiles, preparedOf, textIn } from '../../kit/hosts/installs.ts'
import { tarOf } from '../../kit/servers/registry.ts'

const { docker, database, hostOf } = installingHosts()

test('a push that only changes code uses the dependencies of an earlier release, without a container', async t => {
  t.timeout(110_000)
  const { app } = await hostOf(t)
  const { push, volume } = await app()
  const first = await push(npmFiles())
  t.true(first.installs)
  t.is(first.words, 'installed anew: there is no earlier result')
  t.not(await textIn(first.folders.dependencies, '.package-lock.json'), null)
  t.is(await textIn(first.folders.install, 'package.json'), null, 'the folder of the install step is removed')

  for (const code of ['one', 'two']) {
    const next = await push({ ...npmFiles(), 'index.js': code })
    t.false(next.installs)
    t.regex(next.words, /^reused from release 2, installed at 20/)
    t.true(next.log.includes(`Dependencies: ${next.words}.`))
    t.is(await dependenciesOf(volume, next.release.number), first.folders.dependencies)
    t.is(await docker.host.inspect(buildContainerName(next.release)), null)
  }
  const changed = await push(npmFiles('1.0.1'))
  t.true(changed.installs)
  t.is(changed.words, 'installed anew: since release 2 changed package-lock.json')
})

test('a release does not borrow from one that was settled or discarded since it was found', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const { push } = await app()
  const first = await push(npmFiles())
  const { locks } = host
  host.locks = Object.assign(
    async <T>(appId: string, work: () => Promise<T>) => {
      await locks(appId, () => rm(first.folders.dependencies, { recursive: true }))
      return locks(appId, work)
    },
    { busy: locks.busy },
  )
  await t.throwsAsync(push(npmFiles()), { message: 'The dependencies of release 2 were removed meanwhile.' })
})

test('a result without an optional package that could be installed serves its own release only', async t => {
  t.timeout(110_000)
  const { app } = await hostOf(t)
  const { push } = await app()
  const files = npmFiles()
  const lock = (files['package-lock.json'] ?? '').replace('"os":["aix"],', '')
  const incomplete: Files = { ...files, 'package-lock.json': lock }
  t.not(lock, files['package-lock.json'])
  // As npm does when an optional package cannot be downloaded: it succeeds, and does not report it.
  const install = 'mkdir -p node_modules'
  const first = await push(incomplete, {}, { install })
  t.true(first.log.includes('not for reuse: the optional package node_modules/elsewhere is missing'))
  const second = await push(incomplete, {}, { install })
  t.true(second.installs)
})

/** An application with a package from an archive of its own, which has this text; uncompressed, so that it is text too. */
function archiveFiles(words: string, integrityOf = words): Files {
  const tar = (text: string) =>
    tarOf('package/package.json', Buffer.from(JSON.stringify({ name: 'own', version: '1.0.0', description: text })))
  const integrity = `sha512-${createHash('sha512').update(tar(integrityOf)).digest('base64')}`
  const dependencies = { own: 'file:vendor/own.tgz' }
  const packages = {
    '': { dependencies },
    'node_modules/own': { version: '1.0.0', resolved: dependencies.own, integrity },
  }
  return {
    'index.js': '',
    'package.json': JSON.stringify({ dependencies }),
    'package-lock.json': JSON.stringify({ lockfileVersion: 3, packages }),
    'vendor/own.tgz': tar(words).toString(),
  }
}

test('a package from an archive of the application is used again while the archive is the same', async t => {
  t.timeout(170_000)
  const { app } = await hostOf(t)
  const { push } = await app()
  const first = await push(archiveFiles('one'))
  t.is(first.words, 'installed anew: there is no earlier result')
  const words = async ({ folders }: typeof first) =>
    JSON.parse((await textIn(folders.dependencies, 'own/package.json')) ?? '{}').description
  t.is(await words(first), 'one')
  t.regex((await push({ ...archiveFiles('one'), 'index.js': 'x' })).words, /^reused from release 2,/)
  await t.throwsAsync(push(archiveFiles('two', 'one')), { message: /exit code 1/ }, 'npm compares the digest')
  const next = await push(archiveFiles('two'))
  t.is(next.words, 'installed anew: since release 2 changed package-lock.json, vendor/own.tgz')
  t.is(await words(next), 'two')
})

test('a step of which an archive is missing, or too large, says so at each push, and serves its own release only', async t => {
  t.timeout(110_000)
  const { app } = await hostOf(t)
  const { push, volume } = await app()
  const { 'vendor/own.tgz': _, ...files } = archiveFiles('one')
  const install = 'mkdir -p node_modules && ls -A > node_modules/seen'
  for (const clean of [false, true]) {
    const { words, release, folders } = await push(files, {}, { install, clean })
    t.is(words, 'installed, and not for reuse: vendor/own.tgz is missing, or larger than 4 MiB')
    t.regex((await textIn(folders.dependencies, 'seen')) ?? '', /index\.js/)
    t.is((await preparedOf(volume, release.number)).installed, undefined)
  }
})

test('an install step sees only the files that it depends on', async t => {
  t.timeout(110_000)
  const { app } = await hostOf(t)
  const { push, volume } = await app()
  const files: Files = { ...npmFiles(), 'secret.txt': 'x', 'src/index.js': 'y', '.npmrc': 'fund=false' }
  const install = 'mkdir -p node_modules && ls -A > node_modules/seen'
  const alone = await push(files, {}, { install })
  t.deepEqual((await textIn(alone.folders.dependencies, 'seen'))?.trim().split('\n'), [
    '.npmrc',
    'node_modules',
    'package-lock.json',
    'package.json',
  ])
  t.is(await textIn(alone.folders.source, 'secret.txt'), 'x')
  t.true((await preparedOf(volume, alone.release.number)).installed?.isPinned)

  const manifest = { ...JSON.parse(files['package.json']!), scripts: { postinstall: 'true' } }
  const among = await push({ ...files, 'package.json': JSON.stringify(manifest) }, {}, { install })
  t.regex(among.words, /^installed, and not for reuse: the script "postinstall"/)
  t.regex((await textIn(among.folders.dependencies, 'seen')) ?? '', /secret\.txt/)
  t.is(await textIn(among.folders.source, 'package-lock.json'), files['package-lock.json']!, 'its own lock file stays')
  t.is((await preparedOf(volume, among.release.number)).installed, undefined)
})

test('an install result is on the disk before it has its name, so after a power cut a named one is whole', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const files = npmFiles()
  const manifest = { ...JSON.parse(files['package.json']!), scripts: { postinstall: 'true' } }
  const steps: [what: string, ranIn: string, Files][] = [
    ['alone', 'install/node_modules', files],
    ['among all files', 'source/node_modules', { ...files, 'package.json': JSON.stringify(manifest) }],
  ]
  for (const [what, ranIn, pushed] of steps) {
    const { push, volume } = await app()
    const flushed: string[] = []
    const flush = async () => {
      const root = releaseFolders(volume, 2).root
      for (const name of ['dependencies', ranIn]) if (await exists(join(root, name))) flushed.push(name)
    }
    Object.assign(host.volumes, { flush })
    await push(pushed)
    t.deepEqual(flushed, [ranIn], what)
  }
})

test('dependencies of which one byte, mode, name or link has changed are installed again', async t => {
  t.timeout(170_000)
  const { app, warnings, installs } = await hostOf(t)
  const { push, volume } = await app()
  const damages: [string, (folder: string) => Promise<void>][] = [
    ['a byte', folder => writeFile(join(folder, '.package-lock.json'), 'x', { flag: 'r+' })],
    ['a mode', folder => chmod(join(folder, '.package-lock.json'), 0o777)],
    ['a name', folder => rename(join(folder, '.package-lock.json'), join(folder, 'other'))],
    ['a link more', folder => symlink('/etc', join(folder, 'etc'))],
    ['a file less', folder => rm(join(folder, '.package-lock.json'))],
  ]
  let { folders, release } = await push(npmFiles())
  for (const [what, damage] of damages) {
    await damage(folders.dependencies)
    await installs.settled()
    await installs.drop(release.ownerId, (await preparedOf(volume, release.number)).installed!.key)
    const next = await push({ ...npmFiles(), 'index.js': what })
    t.true(next.installs, what)
    t.is(next.words, `installed anew: the files of release ${release.number} are not as they were installed`, what)
    t.true(warnings.includes('installs: the files of a release are not as they were installed'))
    const after = await push(npmFiles())
    t.regex(after.words, new RegExp(`^reused from release ${next.release.number},`), what)
    ;({ folders, release } = next)
  }
})

type App = Awaited<ReturnType<Awaited<ReturnType<typeof hostOf>>['app']>>

/** Two releases that have each installed the same. */
async function installedTwice({ push, volume }: Pick<App, 'push' | 'volume'>, installs: InstallCache) {
  const older = await push(npmFiles())
  const { dependencies } = older.folders
  await rename(dependencies, `${dependencies}.away`)
  await installs.settled()
  await installs.drop(older.release.ownerId, (await preparedOf(volume, older.release.number)).installed!.key)
  const newer = await push(npmFiles())
  await rename(`${dependencies}.away`, dependencies)
  return [older, newer] as const
}

test('where the newest result is damaged an older one is used', async t => {
  t.timeout(110_000)
  const { app, installs } = await hostOf(t)
  const { push, volume } = await app()
  const [older, newer] = await installedTwice({ push, volume }, installs)
  await writeFile(join(newer.folders.dependencies, 'more'), 'x')
  const next = await push(npmFiles())
  t.regex(next.words, new RegExp(`^reused from release ${older.release.number},`))
})

test('a result is not used again without its folder, in another image, or once it is too old', async t => {
  t.timeout(110_000)
  const { app, host, installs } = await hostOf(t)
  const { push, volume } = await app()
  const { folders, release } = await push(npmFiles())
  const prepared = await preparedOf(volume, release.number)

  const otherImage = async () => `sha256:${'0'.repeat(64)}`
  const { imageId } = host.engine
  Object.assign(host.engine, { imageId: otherImage, runToEnd: async () => ({ exitCode: 1, oom: false }) })
  await t.throwsAsync(push(npmFiles()), { message: /exit code 1/ })
  const { db } = await database
  const lastWords = async () =>
    (await db('deployments').where({ app_id: release.appId }).orderBy('release', 'desc').first()).dependencies
  t.is(await lastWords(), 'installed anew: since release 2 changed the image')
  Object.assign(host.engine, { imageId })

  const old = { ...prepared.installed!, isPinned: false, at: new Date(Date.now() - 25 * 3_600_000).toISOString() }
  await installs.settled()
  await installs.drop(release.ownerId, prepared.installed!.key)
  await writePrepared(folders, { ...prepared, installed: old })
  await t.throwsAsync(push(npmFiles()), { message: /exit code 1/ })
  t.is(await lastWords(), 'installed anew: the result of release 2 is too old, as not every version is pinned')
  await writePrepared(folders, { ...prepared, installed: { ...old, at: new Date().toISOString() } })
  t.regex((await push(npmFiles())).words, /^reused/)
  await rm(releaseFolders(volume, 2).dependencies, { recursive: true })
  await installs.settled()
  await installs.drop(release.ownerId, prepared.installed!.key)
  await t.throwsAsync(push(npmFiles()), { message: /exit code 1/ })
  t.is(await lastWords(), 'installed anew: the result of release 2 is no longer there')
})

/** A commit of some files, unlike a push. */
const upload = { source: { kind: 'archive', segmentId: 'a' } } as const

test('a commit without dependency files keeps the installed ones, unless image or certificates have changed', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const { push, place } = await app()
  await push(npmFiles())
  await place(npmFiles())
  const code = { 'index.js': 'other' }
  const kept = await push(code, upload)
  t.is(kept.words, 'those of release 2: the upload brings no others')
  t.false(kept.installs)

  Object.assign(host.traits, { caBundle: '/etc/ssl/certs/ca-certificates.crt' })
  const trusted = await push(code, upload)
  t.regex(trusted.words, /^installed anew: since release 2 changed .*the certificates that install steps trust/)
  t.not(await textIn(trusted.folders.dependencies, '.package-lock.json'), null)
  t.regex((await push(code, upload)).words, new RegExp(`^those of release ${trusted.release.number}:`))

  Object.assign(host.engine, {
    imageId: async () => `sha256:${'0'.repeat(64)}`,
    runToEnd: async () => ({ exitCode: 1, oom: false }),
  })
  await t.throwsAsync(push(code, upload), { message: /exit code 1/ })
})

test('the digest of what may be used again begins while a commit or an archive is brought', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const { push, place } = await app()
  await push(npmFiles())
  await place(npmFiles())
  const { snapshots, archives, git } = host
  let begin = () => {}
  let begun = Promise.resolve()
  let digests = 0
  const digest: typeof snapshots.digest = (...args) => {
    digests += 1
    begin()
    return snapshots.digest(...args)
  }
  const fetch: typeof git.fetch = async (...args) => begun.then(() => git.fetch(...args))
  const unpack: typeof archives.unpack = async (...args) => begun.then(() => archives.unpack(...args))
  Object.assign(host, { snapshots: { ...snapshots, digest }, git: { fetch }, archives: { unpack } })
  for (const changes of [{}, upload]) {
    begun = new Promise(resolve => {
      begin = resolve
    })
    t.regex((await push(npmFiles(), changes)).words, /^reused from release 2/)
  }
  t.is(digests, 2, 'each is the one that is compared')
})

/** Like a child that digests: it also ends under a signal that was aborted while it waited for its slot. */
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

test('a digest that turns out not to be needed keeps no slot of the one that is', async t => {
  t.timeout(110_000)
  const { app, host } = await hostOf(t)
  const { push } = await app()
  await push(npmFiles())
  const serving = await push(npmFiles('1.0.1'))
  const { snapshots } = host
  const digest: typeof snapshots.digest = (folder, signal) =>
    folder === serving.folders.dependencies ? untilAborted(signal) : snapshots.digest(folder, signal)
  Object.assign(host, { snapshots: { ...snapshots, digest } })
  t.regex((await push(npmFiles())).words, /^reused from release 2/)
})

test('the release whose digest was ended for a newer one gets its own when the newer one is damaged', async t => {
  t.timeout(110_000)
  const { app, host, installs } = await hostOf(t)
  const { push, volume } = await app()
  const [serving, newer] = await installedTwice({ push, volume }, installs)
  await host.db('apps').where({ id: serving.release.appId }).update({ release: serving.release.number })
  await writeFile(join(newer.folders.dependencies, 'x'), 'changed')
  const { snapshots } = host
  // Where its slot comes too late it never begins: the first digest of the serving release is then the one that is needed.
  let isAhead = true
  const digest: typeof snapshots.digest = (folder, signal) => {
    const wasAhead = isAhead
    isAhead = false
    return wasAhead && folder === serving.folders.dependencies ? untilAborted(signal) : snapshots.digest(folder, signal)
  }
  Object.assign(host, { snapshots: { ...snapshots, digest } })
  t.regex((await push(npmFiles())).words, new RegExp(`^reused from release ${serving.release.number},`))
})

test('a build without the cache installs anew, and later pushes use its result', async t => {
  t.timeout(110_000)
  const { app } = await hostOf(t)
  const { push, volume } = await app()
  await push(npmFiles())
  const clean = await push(npmFiles(), {}, { clean: true })
  t.true(clean.installs)
  t.is(clean.words, 'installed anew: a build without the cache was requested')
  const next = await push(npmFiles())
  t.regex(next.words, new RegExp(`^reused from release ${clean.release.number},`))
  t.is((await readdir(join(volume, 'releases'))).length, 3)
})

test('requirements of pip are used again too, for a day where not every version is pinned', async t => {
  t.timeout(170_000)
  const { app, host, installs } = await hostOf(t)
  const { push, volume } = await app()
  const python = { language: 'python', runtimeVersion: '3.11', main: 'app.py' } as const
  await host.engine.ensureImage('berth/python:3.11')
  // For another version of Python: pip asks no registry for it.
  const files = (requirements: string): Files => ({ 'app.py': '', 'requirements.txt': requirements })
  const first = await push(files('elsewhere; python_version < "3"\n'), python)
  t.true(first.installs)
  const { installed } = await preparedOf(volume, first.release.number)
  t.false(installed?.isPinned)
  t.regex(
    (await push({ ...files('elsewhere; python_version < "3"\n'), 'app.py': 'x' }, python)).words,
    /^reused from release 2/,
  )
  const changed = await push(files('elsewhere; python_version < "2"\n'), python)
  t.is(changed.words, 'installed anew: since release 2 changed requirements.txt')
  const more = await push({ ...files('-r more.txt\n'), 'more.txt': 'elsewhere; python_version < "3"\n' }, python)
  t.regex(
    more.words,
    /^installed, and not for reuse: requirements.txt has a line that may name another file: -r more.txt/,
  )
  await installs.settled()
})
