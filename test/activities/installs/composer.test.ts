import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test, { type ExecutionContext } from 'ava'
import { appContainer, buildNetwork } from '../../../activities/containers/spec.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import type { ComposerPackage } from '../../kit/hosts/composer-repository.ts'
import { type Files, installingHosts, preparedOf, textIn } from '../../kit/hosts/installs.ts'
import { type PackageRegistry, packageRegistry } from '../../kit/hosts/package-registry.ts'
import { toolImages } from '../../kit/hosts/tool-images.ts'

/* Install steps in real build containers, with the Composer of the distribution and a small repository. */
const { docker, hostOf } = installingHosts()
let gateway = ''

test.before('the image of PHP and Composer', async t => {
  t.timeout(500_000)
  const network = buildNetwork(docker.run)
  await docker.host.ensureImage(toolImages.php)
  await docker.host.ensureNetwork(network)
  const found = (await docker.host.listNetworks(network.labels)).find(({ name }) => name === network.name)
  gateway = found!.subnet!.replace('0/24', '1')
})

type Push = Awaited<ReturnType<Awaited<ReturnType<typeof hostOf>>['app']>>['push']

const php: Partial<Release> = { language: 'php', runtimeVersion: '8.4', main: 'main.php' }
/** The image in the place of those that only a registry has. */
const standIn = (image: string) => (image.startsWith('composer:') || image.startsWith('php:') ? toolImages.php : image)

async function scene(t: ExecutionContext) {
  const registry = await packageRegistry(gateway)
  t.teardown(() => registry.close())
  const installing = await hostOf(t)
  const { engine } = installing.host
  const own: Partial<AppHostOptions['engine']> = {
    ensureImage: (image, ...rest) => engine.ensureImage(standIn(image), ...rest),
    imageId: image => engine.imageId(standIn(image)),
    runToEnd: (spec, ...rest) => engine.runToEnd({ ...spec, image: standIn(spec.image) }, ...rest),
  }
  Object.assign(installing.host, { engine: { ...engine, ...own } })

  /** A project that requires these packages, with classes and functions of its own. */
  const projectOf = (packages: ComposerPackage[], fields: object = {}, config: object = {}): Files => ({
    'main.php':
      '<?php require __DIR__ . "/vendor/autoload.php"; echo App\\Word::own(), " ", helped(), " ", \\One\\word();',
    'src/Word.php': '<?php namespace App; class Word { static function own() { return "own"; } }',
    'src/helpers.php': '<?php function helped() { return "helped"; }',
    'composer.json': JSON.stringify({
      name: 'test/project',
      require: Object.fromEntries(packages.map(({ name, version }) => [name, version])),
      autoload: { 'psr-4': { 'App\\': 'src/' }, files: ['src/helpers.php'] },
      config: { 'secure-http': false, ...config },
      repositories: [{ type: 'composer', url: registry.composer }, { 'packagist.org': false }],
      ...fields,
    }),
  })
  /** The package that these projects use. */
  const one = (fields: object = {}) =>
    registry.php.publish(
      'test/one',
      { 'functions.php': '<?php namespace One; function word() { return "one"; }' },
      { autoload: { files: ['functions.php'] }, ...fields },
    )
  /** Runs the program of a push as its application would. */
  async function outputOf(
    { release, folders }: { release: Release; folders: Record<'source', string> },
    lender: string,
  ) {
    await mkdir(join(folders.source, 'vendor'), { recursive: true })
    const places = { files: folders.source, dependencies: lender }
    const spec = appContainer(
      { ...release, hostname: null } as Release,
      places as never,
      {},
      installing.host.traits as never,
    )
    let text = ''
    const network = buildNetwork(docker.run).name
    const run = { ...spec, network, image: toolImages.php }
    const onOutput = (piece: string) => {
      text += piece
    }
    const { exitCode } = await docker.host.runToEnd(run, onOutput, new AbortController().signal)
    return `${exitCode} ${text}`
  }
  return { ...installing, registry, projectOf, one, outputOf }
}

/** The planned step, which reports among which files it runs. */
const listing = `echo "runs among: $(ls -A | tr '\n' ' ')" && ${runtimes.php.install({ files: ['composer.json'], main: null })}`
const runs = (log: string) => [...log.matchAll(/^runs among: (.*)$/gm)].map(([, names]) => names!.trim())

/** The lock file of these files, as Composer writes it. */
async function lockOf(push: Push, files: Files): Promise<string> {
  const install = 'composer update --no-dev --no-interaction --ignore-platform-reqs && cp composer.lock vendor/'
  const { folders } = await push(files, php, { install, clean: true })
  return (await textIn(folders.dependencies, 'composer.lock'))!
}

/** A plugin that lists the files which it sees. */
const plugin = {
  'Plugin.php':
    '<?php namespace Nosy; class Plugin implements \\Composer\\Plugin\\PluginInterface { ' +
    'function activate($composer, $io) { file_put_contents("vendor/seen", implode(" ", scandir("."))); } ' +
    'function deactivate($composer, $io) {} function uninstall($composer, $io) {} }',
}
const pluginFields = {
  type: 'composer-plugin',
  require: { 'composer-plugin-api': '^2.0' },
  extra: { class: 'Nosy\\Plugin' },
  autoload: { 'psr-4': { 'Nosy\\': '' } },
}

test('an installation by Composer that read no other file is reused, but not after one byte has changed', async t => {
  t.timeout(170_000)
  const { app, installs, projectOf, one, outputOf } = await scene(t)
  const files = projectOf([one().published])
  const own = await app()
  const locked: Files = { ...files, 'composer.lock': await lockOf(own.push, files) }
  const first = await own.push(locked, php, { install: listing })
  t.is(first.words, 'installed anew: since release 2 changed composer.lock')
  t.deepEqual(runs(first.log), ['composer.json composer.lock'])
  t.true((await preparedOf(own.volume, first.release.number)).installed?.isPinned)
  const { dependencies } = first.folders
  t.is(await outputOf(first, dependencies), '0 own helped one')

  const changed = { ...locked, 'src/Word.php': locked['src/Word.php']!.replace('"own"', '"other"') }
  const next = await own.push({ ...changed, 'src/helpers.php': '<?php function helped() { return "mended"; }' }, php)
  t.regex(next.words, new RegExp(`^reused from release ${first.release.number},`))
  t.is(await outputOf(next, dependencies), '0 other mended one', 'the autoloader finds the files of this release')
  await installs.settled()
  const other = await (await app(own.owner_id)).push(locked, php)
  t.regex(other.words, /^reused from the cache of the account/)
  t.is(await outputOf(other, other.folders.dependencies), '0 own helped one')
  const stranger = await (await app()).push(locked, php)
  t.is(stranger.words, 'installed anew: there is no earlier result')

  for (const name of ['composer.json', 'composer.lock']) {
    const { words } = await own.push({ ...locked, [name]: `${locked[name]} ` }, php)
    t.regex(words, new RegExp(`^installed anew: since release \\d+ changed (.*, )?${name}`))
  }
})

test('without a digest of each package, or without a lock file, what Composer has installed is used again for a day', async t => {
  t.timeout(170_000)
  const { app, projectOf, one, registry } = await scene(t)
  const { published } = one()
  const files = projectOf([published])
  const { push, volume } = await app()
  const first = await push(files, php, { install: listing })
  t.deepEqual(runs(first.log), ['composer.json'])
  t.false((await preparedOf(volume, first.release.number)).installed?.isPinned)
  t.is(await textIn(first.folders.source, 'composer.lock'), null, 'the application gets no file that it did not bring')
  t.regex((await push({ ...files, 'main.php': '' }, php)).words, /^reused from release 2,/)

  registry.php.publish('test/one', { 'functions.php': '' }, { dist: { ...published.dist, shasum: '' } })
  const locked: Files = { ...files, 'composer.lock': await lockOf(push, files) }
  const undigested = await push(locked, php)
  t.false((await preparedOf(volume, undigested.release.number)).installed?.isPinned)
  t.regex((await push({ ...locked, 'main.php': '' }, php)).words, /^reused from release \d+,/)
})

test('a plugin of Composer that may read other files is installed among all of them, and not used again', async t => {
  t.timeout(170_000)
  const { app, projectOf, one, registry } = await scene(t)
  const nosy = registry.php.publish('test/nosy', plugin, pluginFields)
  const files = projectOf([one().published, nosy.published], {}, { 'allow-plugins': true })
  const { push } = await app()
  const because = 'the package test/nosy is a plugin, which may read other files'
  const all = 'composer.json main.php src'
  const first = await push(files, php, { install: listing })
  t.is(first.words, `installed, and not for reuse: ${because}`)
  t.deepEqual(runs(first.log), ['composer.json', all], 'it is known once the report lists the package')
  t.regex((await textIn(first.folders.dependencies, 'seen')) ?? '', /src/)
  const next = await push({ ...files, 'main.php': '' }, php, { install: listing })
  t.is(next.words, first.words)
  t.deepEqual(runs(next.log), [all])

  const locked: Files = { ...files, 'composer.lock': await lockOf(push, files) }
  for (const code of ['one', 'two']) {
    const pushed = await push({ ...locked, 'main.php': code }, php, { install: listing })
    t.is(pushed.words, first.words)
    t.deepEqual(runs(pushed.log), ['composer.json composer.lock main.php src'])
  }
})

test('an installation that Composer makes from files of the project serves its own release only', async t => {
  t.timeout(170_000)
  const { app, projectOf, one, outputOf } = await scene(t)
  const { push } = await app()
  const projects: [object, object, string][] = [
    [
      { autoload: { classmap: ['src/'], files: ['src/helpers.php'] } },
      {},
      'autoload of composer.json searches files of the application by classmap',
    ],
    [
      {},
      { 'optimize-autoloader': true },
      'composer.json has the setting optimize-autoloader, by which other files may be read',
    ],
    [
      { scripts: { 'post-autoload-dump': 'test -e src/Word.php' } },
      {},
      'composer.json has scripts, which may read other files',
    ],
  ]
  for (const [fields, config, because] of projects) {
    const files = projectOf([one().published], fields, config)
    for (const code of ['', '\n']) {
      const pushed = await push({ ...files, 'main.php': `${files['main.php']}${code}` }, php, { install: listing })
      t.is(pushed.words, `installed, and not for reuse: ${because}`)
      t.deepEqual(runs(pushed.log), ['composer.json main.php src'])
      t.is(await outputOf(pushed, pushed.folders.dependencies), '0 own helped one', because)
    }
  }
})

test('a package whose archive Composer could not have, and took from its repository, makes the result its own release’s only', async t => {
  t.timeout(170_000)
  const { app, projectOf, one, registry } = await scene(t)
  const git = await servedGit(t, registry, {
    'functions.php': '<?php namespace One; function word() { return "cloned"; }',
  })
  const { published, path } = one({ source: { type: 'git', ...git } })
  const files = projectOf([published])
  const { push } = await app()
  const locked: Files = { ...files, 'composer.lock': await lockOf(push, files) }
  const faults: Record<string, () => void> = {
    'another digest': () => registry.tamper(path, Buffer.from('other')),
    'no archive': () => registry.unpublish(path),
  }
  for (const [fault, make] of Object.entries(faults)) {
    make()
    for (const code of ['one', 'two']) {
      const pushed = await push({ ...locked, 'main.php': code }, php)
      t.is(pushed.words, 'installed, and not for reuse: the package test/one was not installed from its archive', fault)
      t.regex((await textIn(pushed.folders.dependencies, 'test/one/functions.php')) ?? '', /cloned/, fault)
    }
  }
})

/** Serves a repository of git with one commit of these files, as a folder; resolves to its address and the commit. */
async function servedGit(t: ExecutionContext, registry: PackageRegistry, files: Files) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-composer-git-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const run = async (...args: string[]) => (await promisify(execFile)('git', args, { cwd: folder })).stdout.trim()
  await run('init', '--quiet', '--initial-branch=main')
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  await run('add', '.')
  await run('-c', 'user.name=test', '-c', 'user.email=test@test', 'commit', '--quiet', '--message=one')
  await run('update-server-info')
  registry.instead = ({ url = '' }, response) => {
    const [, path] = /^\/git\/one\.git\/([\w./-]+)/.exec(url) ?? []
    if (!path) return false
    readFile(join(folder, '.git', path)).then(
      bytes => response.end(bytes),
      () => response.writeHead(404).end(),
    )
    return true
  }
  return { url: new URL('/git/one.git', registry.composer).href, reference: await run('rev-parse', 'HEAD') }
}
