import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { releaseFolders, writePrepared } from '../../../activities/releases/files.ts'
import { type InstallPlace, planInstall } from '../../../activities/releases/install-plan.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { bytesInLayers, fileIn, isEmptyInLayers, namesInLayers } from '../../../activities/releases/root-names.ts'
import { runProcess } from '../../../lib/child-process.ts'

type Files = Record<string, string>

async function lay(folder: string, texts: Files): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const [name, text] of Object.entries(texts)) {
    await mkdir(name.endsWith('/') ? join(folder, name) : dirname(join(folder, name)), { recursive: true })
    if (!name.endsWith('/')) await writeFile(join(folder, name), text)
  }
}

/** Release 2 brings `source` to an application that has `files` and runs its release 1 in Node 22. */
async function planned(
  files: Files,
  source: Files,
  changes: Partial<Release> = {},
  app = { release: 1, language: 'javascript', runtime_version: '22' } as never,
  signal = AbortSignal.timeout(60_000),
  reuse: InstallPlace['reuse'] = async ({ plan }) => plan,
) {
  const volume = await mkdtemp(join(tmpdir(), 'berth-plan-'))
  const folders = releaseFolders(volume, 2)
  await lay(folders.files, files)
  await lay(folders.source, source)
  await lay(releaseFolders(volume, 1).dependencies, {})
  await writePrepared(releaseFolders(volume, 1), { install: null, dependenciesOf: null })
  await symlink('/etc', join(folders.files, 'outside'))
  const usual = { number: 2, path: '', language: 'javascript', runtimeVersion: '22', main: 'index.js', start: null }
  const release = { ...usual, source: { kind: 'archive', segmentId: 's' }, ...changes } as Release
  const terms = { owner: null, configNames: ['berth.app'], mayKeep: async () => true, reuse }
  return planInstall(release, { volume, app, ...terms, signal }).finally(() => rm(volume, { recursive: true }))
}

/** The code of the refusal, null when it is planned. */
const codeOf = (plan: Promise<unknown>) =>
  plan.then(
    () => null,
    error => (error as ApplicationFailure).type,
  )

const config = { 'berth.app': 'as it was parsed' }

test('a configuration without files is checked against the files of the application', async t => {
  const kept = { install: null, dependenciesOf: 1 }
  t.deepEqual(await planned({ 'index.js': '' }, config), kept)
  t.deepEqual(await planned({}, { ...config, 'index.js': '' }), kept)
  t.deepEqual(await planned({ 'a/b.js': '' }, config, { main: 'a/b.js' }), kept)
  t.deepEqual(await planned({}, config, { main: null, start: 'node x' }), kept)
  for (const main of ['Index.js', 'a', 'a/c.js', 'outside/passwd', 'index.js/x'])
    t.is(await codeOf(planned({ 'index.js': '', 'a/b.js': '' }, config, { main })), 'INVALID_MAIN', main)
})

test('an upload without a configuration is not checked against the current one', async t => {
  t.deepEqual(await planned({}, { 'words.txt': '' }), { install: null, dependenciesOf: 1 })
})

test('a language that needs a dependency file finds it in the upload or in the application', async t => {
  const go = { language: 'go', runtimeVersion: '1.24', main: 'main.go' } as const
  t.is(await codeOf(planned({ 'main.go': '' }, config, go)), 'MISSING_DEPENDENCIES_FILE')
  t.is(await codeOf(planned({ 'main.go': '', 'go.mod': '' }, config, go)), null)
  const python = { language: 'python', runtimeVersion: '3.12', main: 'app.py' } as const
  const plan = await planned({ 'app.py': '', 'requirements.txt': 'x' }, config, python)
  t.regex(plan.install ?? '', /requirements\.txt/, 'and what another language had installed serves it no more')
  t.is(plan.dependenciesOf, null)
})

test('without a lock file packages in the folder of the application rule out the reuse, and the folder they are mounted at does not', async t => {
  const manifest = { 'package.json': '{"dependencies":{"x":"1"}}' }
  const planOf = (files: Files) => planned({ 'index.js': '', ...files }, { ...config, ...manifest })
  const own = await planOf({ 'node_modules/x/index.js': '' })
  t.is(own.dependencies, 'installed, and not for reuse: node_modules is in the folder of the application')
  t.is(own.inputs, undefined)
  t.is((await planOf({ node_modules: 'no folder' })).inputs, undefined)
  for (const files of [{}, { 'node_modules/': '' }] as Files[])
    t.deepEqual((await planOf(files)).inputs, { files: ['package.json'], isPinned: false, isShownAfter: true })
})

test('another version of the runtime installs again', async t => {
  const files = { 'index.js': '', 'package.json': '{"dependencies":{"x":"1"}}' }
  t.is((await planned(files, config)).install, null)
  t.regex((await planned(files, config, { runtimeVersion: '24' })).install ?? '', /npm/)
})

test('a lock file alone brings other dependencies, at the root of the application', async t => {
  const manifest = '{"dependencies":{"x":"1"}}'
  const cases: [Partial<Release>, Files, string, RegExp][] = [
    [{}, { 'package.json': manifest }, 'package-lock.json', /^npm ci/],
    [{}, { 'package.json': manifest }, 'pnpm-lock.yaml', /pnpm@9\.15\.9 .*install --frozen-lockfile/],
    [{ language: 'php', runtimeVersion: '8.3', main: 'a.php' }, { 'composer.json': '{}' }, 'composer.lock', /composer/],
  ]
  for (const [changes, files, lock, step] of cases) {
    const { language = 'javascript', runtimeVersion = '22' } = changes
    const app = { release: 1, language, runtime_version: runtimeVersion } as never
    t.regex((await planned(files, { [lock]: '{}' }, changes, app)).install ?? '', step, lock)
    t.is((await planned(files, { [lock]: '{}' }, { ...changes, path: 'docs' }, app)).install, null, lock)
  }
})

test('a lock file that the step writes is removed after it, unless the release has one', async t => {
  const php: Partial<Release> = { language: 'php', runtimeVersion: '8.3', main: 'a.php' }
  const cases: [Partial<Release>, Files, string][] = [
    [{}, { 'package.json': '{"dependencies":{"x":"1"}}' }, 'package-lock.json'],
    [php, { 'composer.json': '{}' }, 'composer.lock'],
  ]
  for (const [changes, files, lock] of cases) {
    const push = { ...changes, source: { kind: 'git' } as never }
    t.is((await planned({}, files, push)).writtenLock, lock)
    t.is((await planned({}, { ...files, [lock]: '{}' }, push)).writtenLock, undefined)
  }
})

test('settings of the package managers alone bring other dependencies, and a folder that dependencies are mounted over brings none', async t => {
  const files = { 'package.json': '{"dependencies":{"x":"1"}}' }
  for (const name of ['.npmrc', '.yarnrc', '.yarnrc.yml', '.pnpmfile.cjs', '.pnpmfile.mjs']) {
    t.regex((await planned(files, { [name]: '' })).install ?? '', /npm/, name)
    t.is((await planned(files, { [name]: '' }, { path: 'docs' })).install, null, name)
  }
  t.is((await planned(files, { 'node_modules/x/package.json': '{}' })).install, null)
})

test('in an application with workspaces any manifest of an upload brings other dependencies', async t => {
  const member = { 'packages/a/package.json': '{"dependencies":{"y":"1"}}' }
  const single: Files = { 'package.json': '{"dependencies":{"x":"1"},"workspaces":[]}' }
  const npm: Files = { 'package.json': '{"workspaces":["packages/*"]}' }
  const pnpm: Files = { ...single, 'pnpm-workspace.yaml': '' }
  for (const files of [npm, pnpm]) {
    t.regex((await planned(files, member)).install ?? '', /npm/)
    t.regex((await planned(files, { 'package.json': '{}' }, { path: 'packages/a' })).install ?? '', /npm/)
    t.regex((await planned(files, { 'packages/a/index.js': '' })).install ?? '', /npm/, 'its scripts may read it')
  }
  t.is((await planned(single, { 'packages/a/index.js': '' })).install, null)
  t.is((await planned(single, member)).install, null)
  t.is((await planned({}, member)).install, null)
})

test('in an application with packages from its own files any manifest and archive of an upload brings other dependencies', async t => {
  for (const source of ['file:vendor/a.tgz', 'file:lib/a', './lib/a']) {
    const files: Files = { 'package.json': JSON.stringify({ dependencies: { a: source } }) }
    for (const name of ['vendor/a.tgz', 'lib/a/package.json'])
      t.regex((await planned(files, { [name]: '{}' })).install ?? '', /npm/, `${source} ${name}`)
  }
  const folder: Files = { 'package.json': '{"dependencies":{"a":"file:lib/a"}}' }
  t.regex((await planned(folder, { 'lib/a/index.js': '' })).install ?? '', /npm/, 'its scripts may read it')
  t.is((await planned({ 'package.json': '{"dependencies":{"a":"1"}}' }, { 'vendor/a.tgz': '' })).install, null)
})

test('where the step may read any file, each upload of one installs again, and the configuration alone does not', async t => {
  const php = { language: 'php', runtimeVersion: '8.3', main: 'index.js' } as const
  const cases: [Partial<Release>, Files][] = [
    [{}, { 'package.json': '{"dependencies":{"x":"1"},"scripts":{"postinstall":"patch-package"}}' }],
    [{}, { 'package.json': '{"dependencies":{"x":"1"}}', 'binding.gyp': '{}' }],
    [{}, { 'package.json': '{"dependencies":{"x":"1"}}', '.npmrc': 'cafile=own.pem' }],
    [php, { 'composer.json': '{"require":{"a/b":"1"},"autoload":{"classmap":["src"]}}' }],
  ]
  for (const [changes, files] of cases) {
    const { language = 'javascript', runtimeVersion = '22' } = changes
    const app = { release: 1, language, runtime_version: runtimeVersion } as never
    const planOf = (source: Files, more = {}) =>
      planned({ 'index.js': '', ...files }, source, { ...changes, ...more }, app)
    for (const path of ['', 'patches'])
      t.regex((await planOf({ 'x.patch': '' }, { path })).dependencies ?? '', /^installed, and not for reuse/, path)
    t.regex((await planOf(config, { path: 'docs' })).dependencies ?? '', /^installed, and not for reuse/)
    t.deepEqual(await planOf(config), { install: null, dependenciesOf: 1 })
  }
})

test('a name pattern matches in a folder with very many entries', async t => {
  const many = Object.fromEntries(Array.from({ length: 3000 }, (_, number) => [`${number}.txt`, '']))
  const dotnet = { language: 'dotnet', runtimeVersion: '8.0', main: 'Program.cs' } as const
  t.is(await codeOf(planned({ ...many, 'Program.cs': '' }, config, dotnet)), 'MISSING_DEPENDENCIES_FILE')
  t.is(await codeOf(planned({ ...many, 'Program.cs': '', 'a.csproj': '' }, config, dotnet)), null)
})

test('a dependency file that requests nothing has no install step, whole or laid over', async t => {
  const none = { install: null, dependenciesOf: null }
  const empty = { 'index.js': '', 'package.json': '{"type":"module"}' }
  t.deepEqual(await planned({}, empty, { source: { kind: 'git' } as never }), none)
  t.deepEqual(
    await planned({ 'index.js': '' }, { 'package.json': '{}' }),
    none,
    'nor the packages of the release before',
  )
  const named = { 'package.json': '{"dependencies":{"x":"1"}}' }
  t.regex((await planned({}, { ...empty, ...named }, { source: { kind: 'git' } as never })).install ?? '', /npm/)
})

test('the files of an application are copied only where there is something to install from the copy', async t => {
  const files: Files = { 'index.js': '', 'package.json': '{"dependencies":{"x":"1"}}' }
  // A copy is not begun any more.
  const ended = AbortSignal.abort('ended')
  const copied = (itself: Files, source: Files, changes: Partial<Release> = {}) =>
    planned(itself, source, changes, undefined, ended).then(
      () => false,
      reason => reason === 'ended',
    )
  t.true(await copied(files, { 'package.json': '{"dependencies":{"x":"2"}}' }))
  t.true(await copied(files, { '.npmrc': '' }), 'its own manifest counts where the upload brings none')
  t.false(await copied(files, { 'package.json': '{}' }))
  t.false(await copied({ ...files, 'package.json': '{}' }, { '.npmrc': '' }))
  const site: Partial<Release> = { language: 'static', runtimeVersion: 'latest', main: 'index.html' }
  t.false(await copied({ ...files, 'index.html': '' }, config, site), 'another runtime that installs nothing')

  const again: InstallPlace['reuse'] = async () => ({ install: null, dependenciesOf: 1 })
  const manifest = { 'package.json': '{"dependencies":{"x":"1"}}' }
  t.deepEqual(
    await planned(files, manifest, {}, undefined, ended, again),
    await again({} as never),
    'an earlier result',
  )
  const lock = { 'package-lock.json': '{"lockfileVersion":3,"packages":{}}' }
  t.truthy(
    (await planned({ ...files, ...lock }, manifest, {}, undefined, ended)).inputs,
    'a step that sees its inputs only',
  )
  t.true(await copied(files, { 'package.json': '{"dependencies":{"x":"1"},"scripts":{"install":"x"}}' }))
})

test('what a step may depend on is read from an upload and the files below it as it will lie there', async t => {
  const upload = { 'a/b.tgz': 'upload', file: 'upload', 'empty/': '' }
  const files = {
    'a/b.tgz': 'files',
    'a/c.tgz': 'files',
    'file/x': 'files',
    'only/x': 'files',
    'empty/': '',
    'full/x': '',
  }
  const root = await mkdtemp(join(tmpdir(), 'berth-layers-'))
  t.teardown(() => rm(root, { recursive: true }))
  const layers = [join(root, 'upload'), join(root, 'files')]
  await lay(layers[0]!, upload)
  await lay(layers[1]!, files)
  await symlink('/etc', join(layers[0]!, 'only'))
  const read = async (name: string) => (await bytesInLayers(layers, name, 100))?.toString() ?? null
  const found = {
    'a/b.tgz': 'upload',
    'a/c.tgz': 'files',
    file: 'upload',
    'file/x': null,
    'only/x': null,
    'only/passwd': null,
    none: null,
  }
  for (const [name, text] of Object.entries(found)) t.is(await read(name), text, name)
  t.deepEqual(await namesInLayers(layers, ['file', 'full', 'none', 'only']), ['file', 'only', 'full'])
  t.true(await isEmptyInLayers(layers, 'empty'))
  for (const name of ['full', 'file']) t.false(await isEmptyInLayers(layers, name), name)
})

test('a dependency file that is a link, a pipe or too large is left to its tool', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-manifest-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const read = (name: string) => fileIn(folder, name, 100)
  await writeFile(join(folder, 'fits'), 'x'.repeat(100))
  await writeFile(join(folder, 'large'), 'x'.repeat(101))
  await symlink(join(folder, 'fits'), join(folder, 'link'))
  await mkdir(join(folder, 'folder'))
  await runProcess('/usr/bin/mkfifo', [join(folder, 'pipe')])
  t.is(await read('fits'), 'x'.repeat(100))
  for (const name of ['large', 'link', 'folder', 'pipe', 'missing']) t.is(await read(name), null, name)
})
