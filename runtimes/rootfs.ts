import { createHash } from 'node:crypto'
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import {
  type Environment,
  networkVariables,
  ownVariables,
  runProcess,
  startProcess,
  systemEnvironment,
} from '../lib/child-process.ts'
import { dayMs } from '../lib/time.ts'
import { createOnce } from './create-once.ts'
import { ownProgram, programLabel } from './database-recipes.ts'
import { packageSources, transportOptions } from './debian.ts'
import { assertReleased } from './npm-packages.ts'
import { fetchWheels } from './pypi-packages.ts'
import type { Recipe } from './recipe.ts'
import { recipes } from './recipes.ts'

/** Environment of programs that fetch packages: how to reach the network, and where their settings are. */
const fetchEnvironment = (): Environment => ({
  ...systemEnvironment,
  ...ownVariables([...networkVariables, ...npmVariables, ...pipVariables, 'PATH', 'HOME', 'TMPDIR', 'APT_CONFIG']),
})
const npmSettings = ['REGISTRY', 'USERCONFIG', 'GLOBALCONFIG', 'CAFILE', 'CACHE', 'PROXY', 'HTTPS_PROXY', 'NOPROXY']
const npmVariables = npmSettings.flatMap(name => [`NPM_CONFIG_${name}`, `npm_config_${name.toLowerCase()}`])
const pipVariables = ['INDEX_URL', 'EXTRA_INDEX_URL', 'CONFIG_FILE', 'CERT', 'PROXY', 'TRUSTED_HOST'].map(
  name => `PIP_${name}`,
)

/** A root file system ready to be imported: a tar file and the Dockerfile instructions that belong to it. */
export interface Rootfs {
  tarball: string
  changes: readonly string[]
}

/**
 * Makes root file systems by image name; resolves to null for names without a recipe. Finished ones are cached in
 * `cacheFolder` under the recipe's hash, so a changed recipe is made again. Needs root and `mmdebstrap`; rejects with an
 * Error that says what is missing.
 */
export function rootfsMaker(cacheFolder: string, arch: string = process.arch, all: readonly Recipe[] = recipes(arch)) {
  return async (
    image: string,
    onProgress: (line: string) => void = () => {},
    signal?: AbortSignal,
  ): Promise<Rootfs | null> => {
    const recipe = all.find(candidate => candidate.image === image)
    if (!recipe) return null
    const name = cacheName(recipe, arch)
    const tarball = `${cacheFolder}/${name}`
    await createOnce(cacheFolder, name, async work => {
      await make(recipe, { arch, work, tarball, signal }, onProgress)
      await removeOlder(cacheFolder, name)
    })
    const program = ownProgram(image)
    const labels = program === null ? [] : [`LABEL ${programLabel}=${program}`]
    return { tarball, changes: [...recipe.changes, ...labels] }
  }
}

const hashLength = 12

/** How long a root file system of an older recipe stays: another version of Berth on this machine may just load it. */
const olderStaysMs = dayMs

/** Removes what older recipes of an image have left: some hundred megabytes each. */
async function removeOlder(cacheFolder: string, name: string): Promise<void> {
  const hashAt = name.length - '.tar'.length - hashLength
  const isOther = (entry: string) =>
    entry !== name && entry.startsWith(name.slice(0, hashAt)) && /^[0-9a-f]+\.tar$/.test(entry.slice(hashAt))
  for (const entry of (await readdir(cacheFolder)).filter(isOther)) {
    const path = `${cacheFolder}/${entry}`
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY })) // another process removes it
    if (mtimeMs < Date.now() - olderStaysMs) await rm(path, { force: true })
  }
}

function cacheName(recipe: Recipe, arch: string): string {
  const hash = createHash('sha256').update(JSON.stringify(recipe)).digest('hex').slice(0, hashLength)
  return `${recipe.image.replace(/^.*\//, '').replace(':', '-')}-${arch}-${hash}.tar`
}

/** Made under another name and renamed, so that a killed run leaves nothing that looks finished. */
async function make(
  recipe: Recipe,
  { arch, work, tarball, signal }: { arch: string; work: string; tarball: string; signal: AbortSignal | undefined },
  onProgress: (line: string) => void,
): Promise<void> {
  const { image, npm, pypi = [], files = {} } = recipe
  onProgress(`${image}: no image registry answered, making it here from packages of the distribution`)
  if (npm.length > 0) {
    onProgress(`${image}: fetching ${npm.join(', ')}`)
    await runProcess('npm', ['pack', '--silent', '--pack-destination', work, ...npm], {
      cwd: work,
      env: fetchEnvironment(),
    })
    await assertReleased(work, npm)
  }
  if (pypi.length > 0) {
    onProgress(`${image}: fetching ${pypi.length} packages of Python`)
    await fetchWheels(work, pypi, { arch, env: fetchEnvironment() })
  }
  for (const [name, text] of Object.entries(files)) await writeFile(`${work}/${name}`, text)
  signal?.throwIfAborted()
  await bootstrap(recipe, { work, signal }, onProgress)
  await rename(`${work}/rootfs.tar`, tarball)
  onProgress(`${image}: made`)
}

async function bootstrap(
  recipe: Recipe,
  { work, signal }: { work: string; signal: AbortSignal | undefined },
  onProgress: (line: string) => void,
): Promise<void> {
  const sources = await packageSources(recipe.suite)
  const files = await sourceFiles(sources, work)
  await writeFile(`${work}/customize`, ['set -e', ...recipe.steps, slim].join('\n'))
  const options = [
    '--variant=essential',
    `--include=${recipe.packages.join(',')}`,
    '--aptopt=APT::Install-Recommends "false"',
    ...(await transportOptions()).map(line => `--aptopt=${line}`),
    // This release file is valid for a week only, and mirrors of closed networks are often frozen.
    ...(recipe.suite === 'sid' ? ['--aptopt=Acquire::Check-Valid-Until "false"'] : []),
    ...[...excluded, ...(recipe.excluded ?? [])].map(path => `--dpkgopt=path-exclude=${path}`),
    ...(recipe.before ?? []).map(step => `--essential-hook=${step}`),
    `--customize-hook=sh ${quoted(`${work}/customize`)} "$1" ${quoted(work)}`,
  ]
  const child = startProcess('mmdebstrap', [...options, recipe.suite, `${work}/rootfs.tar`, ...files], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: fetchEnvironment(),
  })
  const last: string[] = []
  createInterface(child.stderr!).on('line', line => {
    last.push(line)
    if (last.length > 20) last.shift()
    const stage = stageOf(line)
    if (stage) onProgress(`${recipe.image}: ${stage}`)
  })
  // It removes what it has made, unlike after SIGKILL.
  const end = () => child.kill('SIGTERM')
  signal?.addEventListener('abort', end, { once: true })
  const code = await new Promise<number | null>((done, failed) => child.once('error', failed).once('close', done))
    .catch(cause => {
      throw new Error(`${recipe.image} cannot be made here: mmdebstrap is not installed.`, { cause })
    })
    .finally(() => signal?.removeEventListener('abort', end))
  signal?.throwIfAborted()
  if (code !== 0) throw new Error(`${recipe.image} could not be made:\n${last.join('\n')}`)
}

/** What the lines of the tool begin with, and how customers are shown them: the lines themselves have paths of the machine. */
const stages: readonly [RegExp, string][] = [
  [/^I: running apt-get update/, 'reading the lists of packages'],
  [/^I: downloading packages/, 'downloading packages'],
  [/^I: (extracting archives|installing essential)/, 'unpacking the essential packages'],
  [/^I: (installing remaining|running --customize-hook|running hooks)/, 'installing packages'],
  [/^I: cleaning/, 'removing what is not needed'],
  [/^I: creating tarball/, 'packing it'],
]

/** The stage that a line of the tool begins, null for every other line. */
export const stageOf = (line: string): string | null => stages.find(([pattern]) => pattern.test(line))?.[1] ?? null

/** Empty when the machine has no sources of this suite: the tool then uses the distribution's main site. */
async function sourceFiles(sources: string[], work: string): Promise<string[]> {
  const groups = {
    list: sources.filter(source => source.startsWith('deb ') || source.startsWith('deb\t')),
    sources: sources.filter(source => !/^deb\s/.test(source)),
  }
  const files: string[] = []
  for (const [extension, texts] of Object.entries(groups)) {
    if (texts.length === 0) continue
    await writeFile(`${work}/apt.${extension}`, `${texts.join('\n\n')}\n`)
    files.push(`${work}/apt.${extension}`)
  }
  return files
}

/** Manuals, translations and caches of package tools are left out; licences stay. */
const excluded = [
  '/usr/share/man/*',
  '/usr/share/info/*',
  '/usr/share/locale/*',
  '/usr/share/lintian/*',
  '/usr/share/bash-completion/*',
]
const slim =
  'rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*.log "$1"/var/cache/debconf/*-old "$1"/tmp/*'

/** Quotes one word for a shell: a home folder may have a space in its name. */
const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
