import { chmod, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { exists, writePrepared } from '../../../activities/releases/files.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { type Files, installingHosts, npmFiles, preparedOf, textIn } from '../../kit/hosts/installs.ts'

/* Commits of some files, which bring no manifest. */
const { hostOf } = installingHosts()

/** An application with these files, whose first release serves. `commit` brings some more. */
async function servingApp(t: ExecutionContext, files: Files, runtime: Partial<Release> = {}) {
  const installing = await hostOf(t)
  const app = await installing.app()
  const { language = 'javascript', runtimeVersion = '22' } = runtime
  await installing.host.engine.ensureImage(`berth/${language === 'python' ? language : 'node'}:${runtimeVersion}`)
  await installing.host.db('apps').where({ id: app.id }).update({ language, runtime_version: runtimeVersion })
  const first = await app.push(files, runtime)
  await app.place(files)
  const commit = (code: Files) => app.push(code, { ...runtime, source: { kind: 'archive', segmentId: 'a' } })
  return { ...installing, ...app, first, commit, at: (name: string) => join(first.folders.files, name) }
}

const python = { language: 'python', runtimeVersion: '3.11', main: 'app.py' } as const
/** For another version of Python: pip asks no registry for it. */
const requirements = 'elsewhere; python_version < "3"\n'

test('a commit without requirements into an application in Python copies none of its files, and installs nothing', async t => {
  t.timeout(170_000)
  for (const requires of [requirements, '# none\n', null]) {
    const files: Files = { 'app.py': '', ...(requires !== null && { 'requirements.txt': requires }) }
    const { first, commit, at } = await servingApp(t, files, python)
    // A copy would be refused.
    await writeFile(at('closed'), '')
    await chmod(at('closed'), 0)
    for (const code of ['one', 'two']) {
      const next = await commit({ 'app.py': code })
      t.false(next.installs)
      t.is(next.words, requires === requirements ? 'those of release 2: the upload brings no others' : (null as never))
    }
    t.is(first.installs, requires === requirements)
  }
})

test('a commit into an application in Python installs what its requirements are now, with the certificates of now', async t => {
  t.timeout(170_000)
  const { commit, at, host } = await servingApp(t, { 'app.py': '', 'requirements.txt': requirements }, python)
  await writeFile(at('requirements.txt'), 'elsewhere; python_version < "2"\n')
  const changed = await commit({ 'app.py': 'x' })
  t.is(changed.words, 'installed anew: since release 2 changed requirements.txt')
  t.regex((await commit({ 'app.py': 'y' })).words, new RegExp(`^those of release ${changed.release.number}:`))
  Object.assign(host.traits, { caBundle: '/etc/ssl/certs/ca-certificates.crt' })
  t.regex((await commit({ 'app.py': 'y' })).words, /^installed anew: since release 3 changed .*certificates/)
  await rm(at('requirements.txt'))
  const none = await commit({ 'app.py': 'z' })
  t.false(none.installs)
  t.is(none.words, null as never, 'and nothing that was installed before')

  const more = await servingApp(t, { 'app.py': '', 'requirements.txt': '-r more.txt\n', 'more.txt': '' }, python)
  const next = await more.commit({ 'app.py': 'x', 'more.txt': requirements })
  t.regex(next.words, /^installed, and not for reuse: requirements.txt has a line that may name another file/)
})

test('damaged dependencies are not lent to a commit without a manifest, even if the push that detected the damage failed', async t => {
  t.timeout(170_000)
  for (const [files, runtime] of [
    [npmFiles(), {}],
    [{ 'app.py': '', 'requirements.txt': requirements }, python],
  ] as [Files, Partial<Release>][]) {
    const { push, commit, first, volume, installs } = await servingApp(t, files, runtime)
    await installs.settled()
    await installs.drop(first.release.ownerId, (await preparedOf(volume, first.release.number)).installed!.key)
    await writeFile(join(first.folders.dependencies, 'planted'), 'x')
    const failing = push(files, runtime, { install: 'exit 3' })
    await t.throwsAsync(failing, { message: /exit code 3/ })
    const next = await commit({ 'index.js': 'x' })
    t.is(next.words, 'installed anew: the earlier result was damaged')
    t.true(next.installs)
    t.is(await textIn(next.folders.dependencies, 'planted'), null)
    t.is(
      (await commit({ 'index.js': 'y' })).words,
      `those of release ${next.release.number}: the upload brings no others`,
    )
  }
})

/** An application whose own script reads a file after each installation. */
const patched = (patch: string): Files => {
  const { 'package.json': manifest = '', ...files } = npmFiles()
  const scripts = { postinstall: 'mkdir -p node_modules && cat patches/x.patch > node_modules/patched' }
  return { ...files, 'package.json': JSON.stringify({ ...JSON.parse(manifest), scripts }), 'patches/x.patch': patch }
}

test('a commit of the one file that an install script reads runs it again, and one of the configuration does not', async t => {
  t.timeout(170_000)
  const { commit, first, at, host } = await servingApp(t, patched('one'))
  host.traits.configNames = ['berth.app']
  t.is(await textIn(first.folders.dependencies, 'patched'), 'one')
  const because = 'installed, and not for reuse: the script "postinstall" of package.json may read other files'
  const next = await commit({ 'patches/x.patch': 'two' })
  t.is(next.words, because)
  t.is(await textIn(next.folders.dependencies, 'patched'), 'two')
  await writeFile(at('patches/x.patch'), 'two')
  t.is(
    (await commit({ 'berth.app': 'x' })).words,
    `those of release ${next.release.number}: the upload brings no others`,
  )

  Object.assign(host.traits, { caBundle: '/etc/ssl/certs/ca-certificates.crt' })
  const trusted = await commit({ 'berth.app': 'x' })
  t.is(trusted.words, because, 'with the certificates of now')
  t.is(
    (await commit({ 'berth.app': 'x' })).words,
    `those of release ${trusted.release.number}: the upload brings no others`,
  )

  // Its script is gone from the manifest now, and what it has made is still there.
  await writeFile(at('package.json'), npmFiles()['package.json']!)
  const without = await commit({ 'index.js': 'x' })
  t.is(await textIn(without.folders.dependencies, 'patched'), null)
  t.is(
    (await commit({ 'index.js': 'y' })).words,
    `those of release ${without.release.number}: the upload brings no others`,
  )
})

test('a result that is not for reuse, and depends on no other file, is kept while image and certificates are the same', async t => {
  t.timeout(110_000)
  const files = npmFiles()
  // The optional package is for this system too, and missing: npm takes that for success.
  const lock = (files['package-lock.json'] ?? '').replace('"os":["aix"],', '')
  const installing = await hostOf(t)
  const { push, place, volume } = await installing.app()
  const partial = { install: 'mkdir -p node_modules' }
  const first = await push({ ...files, 'package-lock.json': lock }, {}, partial)
  await place({ ...files, 'package-lock.json': lock })
  const upload = { source: { kind: 'archive', segmentId: 'a' } } as const
  const commit = () => push({ 'index.js': 'x' }, upload, partial)
  t.is((await preparedOf(volume, first.release.number)).installed, undefined)
  t.is((await commit()).words, `those of release ${first.release.number}: the upload brings no others`)

  Object.assign(installing.host.traits, { caBundle: '/etc/ssl/certs/ca-certificates.crt' })
  const trusted = await commit()
  t.true(trusted.installs)
  t.false((await commit()).installs)
  const { facts: _, ...older } = await preparedOf(volume, trusted.release.number)
  await writePrepared(trusted.folders, older)
  const again = await commit()
  t.true(again.installs, 'as a version of before has recorded it')
  const { facts: __, ...unknown } = await preparedOf(volume, again.release.number)
  await writePrepared(again.folders, { ...unknown, dependenciesOf: 99 })
  t.true((await commit()).installs, 'it uses its own: the one that had lent it others was undone')
})

test('a commit with an unchanged manifest copies no file of its application, and one with another lock file only what the step depends on', async t => {
  t.timeout(110_000)
  const { commit, at, volume } = await servingApp(t, npmFiles())
  // A copy would be refused.
  await writeFile(at('closed'), '')
  await chmod(at('closed'), 0)
  const { 'package.json': manifest = '', 'package-lock.json': lock = '' } = npmFiles('1.0.1')
  const same = await commit({ 'index.js': 'x', 'package.json': manifest })
  t.regex(same.words, /^reused from release 2,/)
  t.false(await exists(same.folders.build))
  const changed = await commit({ 'index.js': 'x', 'package-lock.json': lock })
  t.is(changed.words, 'installed anew: since release 2 changed package-lock.json')
  t.true((await preparedOf(volume, changed.release.number)).installed?.isPinned)
  await t.throwsAsync(commit(patched('one')), { message: /closed cannot be read/ })
})
