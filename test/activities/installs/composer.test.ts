import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import type { AppHostOptions } from '../../../activities/app-host-options.ts'
import { appContainer, buildNetwork } from '../../../activities/containers/spec.ts'
import type { Release } from '../../../activities/releases/release.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import type { ComposerPackage } from '../../kit/hosts/composer-repository.ts'
import { type Files, installingHosts, preparedOf, textIn } from '../../kit/hosts/installs.ts'
import { packageRegistry } from '../../kit/hosts/package-registry.ts'
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
    'main.php': '<?php require __DIR__ . "/vendor/autoload.php"; echo App\\Word::own(), " ", helped(), " ", \\One\\word();',
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
  async function outputOf({ release, folders }: { release: Release; folders: Record<'source', string> }, lender: string) {
    await mkdir(join(folders.source, 'vendor'), { recursive: true })
    const places = { files: folders.source, dependencies: lender }
    const spec = appContainer({ ...release, hostname: null } as Release, places as never, {}, installing.host.traits as never)
    let text = ''
    const network = buildNetwork(docker.run).name
    const run = { ...spec, network, image: toolImages.php }
    const { exitCode } = await docker.host.runToEnd(run, piece => void (text += piece), new AbortController().signal)
    return `${exitCode} ${text}`
  }
  return { ...installing, registry, projectOf, one, outputOf }
}

/** A step that leaves the lock file of Composer where its text can be read. */
const locking = 'composer update --no-dev --no-interaction --ignore-platform-reqs && cp composer.lock vendor/'

test('what Composer has installed that saw no other file is used again, and not with one byte changed', async t => {
  t.timeout(170_000)
  const { app, installs, projectOf, one, outputOf } = await scene(t)
  const files = projectOf([one().published])
  const own = await app()
  const scout = await own.push(files, php, { install: locking })
  const lock = (await textIn(scout.folders.dependencies, 'composer.lock'))!
  t.truthy(lock)
  const locked = { ...files, 'composer.lock': lock }
  const first = await own.push(locked, php)
  console.log(first.words, first.log, await readdir(first.folders.source))
  const { installed } = await preparedOf(own.volume, first.release.number)
  console.log(installed)
  t.is(await outputOf(first, first.folders.dependencies), '0 own helped one')
})
