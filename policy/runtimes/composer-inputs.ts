import { because, type Fields, isEmpty, isObject, maxLine, objectOf, type RootTexts } from './root-texts.ts'
import type { InstallInputs } from './runtime.ts'

// What an installation by Composer depends on. Where it may run code, or read files of the project, it depends on more.

const [manifestName, lockName] = ['composer.json', 'composer.lock'] as const

/**
 * Names that Composer looks for besides manifest and lock file: what is installed already, passwords, and folders of version control, from
 * which it takes the version of the project.
 */
export const composerInputNames: readonly string[] = [
  'vendor',
  'auth.json',
  '.git',
  '.hg',
  '.svn',
  '.fslckout',
  '_FOSSIL_',
]

/** In `vendor`: what Composer has installed. */
export const composerReport = 'composer/installed.json'

/** What `composer install --no-dev` depends on, from manifest and lock file; without one it resolves versions, and only its report lists packages. */
export function composerInputs(texts: RootTexts): InstallInputs {
  const obstacle = composerInputNames.find(name => texts.has(name))
  if (obstacle) return because(`${obstacle} is in the folder of the application`)
  const manifest = objectOf(texts.get(manifestName))
  if (!manifest) return because(`${manifestName} cannot be read`)
  const reason = ofManifest(manifest)
  if (reason) return because(reason)
  if (!texts.has(lockName)) return { files: [manifestName], isPinned: false, isShownAfter: true }
  const packages = packagesIn(texts.get(lockName))
  if (!packages) return because(`${lockName} cannot be read`)
  const more = ofPackages(packages)
  return more ? because(more) : { files: [manifestName, lockName], isPinned: packages.every(isPinned) }
}

/** Why packages that a step has installed, by its report, may have read more than the manifest; null when they have not. */
export function composerDependedOnMore(report: string | null): string | null {
  const packages = packagesIn(report)
  return packages ? ofPackages(packages) : 'the step has left no report'
}

/**
 * Why a successful step is not known to have installed all that the lock file lists, its own or the one that it has `written`; null when it
 * has. Where an archive cannot be had, or has another digest, Composer takes the package from its repository.
 */
export function composerLeftOut(texts: RootTexts, written: string | null, report: string | null): string | null {
  const [locked, reported] = [packagesIn(texts.get(lockName) ?? written), packagesIn(report)]
  if (!locked || !reported) return 'the step has left no list of what it has installed'
  const installed = new Map(reported.map(one => [one.name, one]))
  for (const one of locked) {
    const present = installed.get(one.name)
    if (!present || present.version !== one.version) return `the package ${one.name} is missing`
    if (!isEmptyPackage(one) && present['installation-source'] !== 'dist')
      return `the package ${one.name} was not installed from its archive`
  }
  return null
}

type Package = Fields & { name: string }

const isName = (name: unknown): boolean =>
  typeof name === 'string' && name.length <= maxLine && /^[a-z0-9][a-z0-9_.-]*\/[a-z0-9][a-z0-9_.-]*$/i.test(name)

/** The entries of a list of packages, of which each is named as Composer demands it; null for what is no such list. */
function packagesIn(text: string | null | undefined): Package[] | null {
  const packages: unknown = objectOf(text)?.packages
  const isPackage = (one: unknown): one is Package => isObject(one) && isName(one.name)
  return Array.isArray(packages) && packages.every(isPackage) ? packages : null
}

/** Fields of a manifest that name no file, or are looked into. */
const plainFields: ReadonlySet<string> = new Set([
  ...['$schema', '_comment', 'abandoned', 'archive', 'authors', 'autoload', 'autoload-dev', 'config', 'conflict'],
  ...['description', 'extra', 'funding', 'homepage', 'keywords', 'license', 'minimum-stability', 'name'],
  ...['non-feature-branches', 'prefer-stable', 'provide', 'readme', 'replace', 'repositories', 'require'],
  ...['require-dev', 'scripts', 'scripts-aliases', 'scripts-descriptions', 'suggest', 'support', 'time', 'type'],
  ...['version'],
])

/** Why an installation by this manifest reads more than it and its lock file; null when it does not. */
function ofManifest(manifest: Fields): string | null {
  const unknown = Object.keys(manifest).find(field => !plainFields.has(field))
  if (unknown !== undefined) return `${manifestName} has the field ${unknown}`
  // Composer 2.9 loads classes that any script names, whatever it is for.
  if (!isEmpty(manifest.scripts)) return `${manifestName} has scripts, which may read other files`
  return ofAutoload(manifest) ?? ofConfig(manifest.config) ?? ofRepositories(manifest.repositories)
}

/** Rules of which Composer writes down the paths; it searches files for classes by `classmap` only. */
const writtenDown: ReadonlySet<string> = new Set(['psr-0', 'psr-4', 'files', 'exclude-from-classmap'])

function ofAutoload(manifest: Fields): string | null {
  for (const field of ['autoload', 'autoload-dev']) {
    const rules = manifest[field] ?? {}
    if (typeof rules !== 'object') return `${field} of ${manifestName} cannot be read`
    const searched = Object.entries(rules).find(([rule, paths]) => !writtenDown.has(rule) && !isEmpty(paths))
    if (searched) return `${field} of ${manifestName} searches files of the application by ${searched[0]}`
  }
  return null
}

/** Settings that name no file, and with which none of the project is read. */
const plainSettings: ReadonlySet<string> = new Set([
  ...['allow-plugins', 'audit', 'autoloader-suffix', 'bearer', 'bin-compat', 'bitbucket-oauth', 'bump-after-update'],
  ...['discard-changes', 'disable-tls', 'github-domains', 'github-expose-hostname', 'github-oauth', 'gitlab-domains'],
  ...['gitlab-oauth', 'gitlab-token', 'htaccess-protect', 'http-basic', 'notify-on-install', 'platform'],
  ...['platform-check', 'prepend-autoloader', 'process-timeout', 'secure-http', 'sort-packages', 'use-include-path'],
])

/** Settings that do so with another value than this. */
const settings: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['apcu-autoloader', false],
  ['bin-dir', 'vendor/bin'],
  ['classmap-authoritative', false],
  ['lock', true],
  ['optimize-autoloader', false],
  ['preferred-install', 'dist'],
  ['vendor-dir', 'vendor'],
])

function ofConfig(config: unknown = {}): string | null {
  if (typeof config !== 'object' || config === null) return `config of ${manifestName} cannot be read`
  const isPlain = ([name, value]: [string, unknown]) =>
    plainSettings.has(name) || (settings.has(name) && settings.get(name) === value)
  const setting = Object.entries(config).find(entry => !isPlain(entry))
  return setting ? `${manifestName} has the setting ${setting[0]}, by which other files may be read` : null
}

const isAddress = (url: unknown): boolean =>
  typeof url === 'string' && url.length <= maxLine && /^https?:\/\/[^\\]+$/i.test(url)

/** Repositories that lie at an address. The packages of one in the manifest itself are looked at where the lock file or the report lists them. */
const remoteTypes: ReadonlySet<unknown> = new Set(['composer', 'git', 'github', 'gitlab', 'vcs'])
const repositoryFields: ReadonlySet<string> = new Set([
  ...['canonical', 'exclude', 'name', 'no-api', 'only', 'package', 'type', 'url'],
])

function ofRepositories(repositories: unknown = []): string | null {
  const list = typeof repositories === 'object' && repositories !== null ? Object.values(repositories) : null
  if (!list) return `repositories of ${manifestName} cannot be read`
  return list.every(one => one === false || isElsewhere(Object(one)))
    ? null
    : `${manifestName} has a repository that may be in the folder of the application`
}

function isElsewhere(repository: Fields): boolean {
  const { type, url } = repository
  const entries = Object.entries(repository)
  // Such as `{"packagist.org": false}`.
  if (entries.length > 0 && entries.every(([, value]) => value === false)) return true
  if (!entries.every(([field]) => repositoryFields.has(field))) return false
  return type === 'package' ? url === undefined : remoteTypes.has(type) && isAddress(url)
}

/** Why the installation of these packages reads more than their archives; null when it does not. */
function ofPackages(packages: readonly Package[]): string | null {
  const names = new Set<string>()
  for (const one of packages) {
    const name = one.name.toLowerCase()
    if (names.has(name)) return `the package ${name} is listed twice`
    names.add(name)
    const reason = ofPackage(one)
    if (reason) return `the package ${name} ${reason}`
  }
  return null
}

const typeOf = ({ type = 'library' }: Fields): string | null => (typeof type === 'string' ? type.toLowerCase() : null)
const plugins: ReadonlySet<string | null> = new Set(['composer-plugin', 'composer-installer', null])
/** One of type `metapackage` only requires others. */
const isEmptyPackage = (one: Fields): boolean => typeOf(one) === 'metapackage'

const archives: ReadonlySet<unknown> = new Set(['gzip', 'tar', 'xz', 'zip'])

function ofPackage(one: Fields): string | null {
  if (plugins.has(typeOf(one))) return 'is a plugin, which may read other files'
  const steering = ['target-dir', 'transport-options'].find(field => !isEmpty(one[field]))
  if (steering) return `has the field ${steering}`
  const { type, url, mirrors = [] } = Object(one.dist)
  const isArchive = archives.has(type) && isAddress(url)
  if (!isArchive && !isEmptyPackage(one)) return 'is no archive at an address'
  if (!Array.isArray(mirrors) || !mirrors.every(mirror => isAddress(Object(mirror).url))) return 'has an odd mirror'
  const { bin = [] } = one
  const { classmap = [] } = Object(one.autoload)
  const isInside = (paths: unknown) =>
    Array.isArray(paths) && paths.every(path => typeof path === 'string' && !path.includes('..'))
  return isInside(typeof bin === 'string' ? [bin] : bin) && isInside(classmap) ? null : 'may read files outside of it'
}

/** Whether a lock file has the digest of a package. It has none of most archives of git servers, which make them as they are requested. */
const isPinned = (one: Fields): boolean => {
  const { shasum } = Object(one.dist)
  return isEmptyPackage(one) || (typeof shasum === 'string' && /^[0-9a-f]{40}$/.test(shasum))
}
