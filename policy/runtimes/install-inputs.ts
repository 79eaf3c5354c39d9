import { otherLocks, otherPackages } from './other-locks.ts'
import { archivesOf, modulesFolder, type OwnArchives, ofArchives, withoutArchives } from './own-archives.ts'
import { because, type Fields, isEmpty, maxLine, objectOf, type RootTexts } from './root-texts.ts'
import type { InstallInputs } from './runtime.ts'

// On which files of the root an install step depends entirely. Where that is not certain it depends on more, and its result is not
// reused: a mistake here must cost time, never a wrong package.

/**
 * Names that change what the package managers of Node do, apart from manifest and lock files. `node_modules` does where it is not empty and
 * no lock file is there: `npm ci` removes it first.
 */
export const nodeInputNames: readonly string[] = [
  modulesFolder,
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  '.pnpmfile.cjs',
  '.pnpmfile.mjs',
  '.yarnclean',
  '.pnp.js',
]

const membersFile = 'pnpm-workspace.yaml'
/** Files that give the package managers more to do than the manifest does: npm builds what one describes, the other names folders with manifests. */
export const moreToInstall: readonly string[] = ['binding.gyp', membersFile]

const judgedApart: ReadonlySet<string> = new Set(['.npmrc', modulesFolder])

/** Only this lock file names the packages with scripts, which might read the project. */
export const npmLocks: readonly string[] = ['npm-shrinkwrap.json', 'package-lock.json']

/** Scripts of the project itself that package managers run with an installation. */
export const installScripts = /^(pre|post)?(install|prepare)$|^prepublish$|^pnpm:devPreinstall$/

/** Scripts that npm runs when an installation has changed `node_modules`. */
const changeScripts = /^(pre|post)?dependencies$/

/** Packages whose scripts read only their own folder. */
const ownFolderOnly: ReadonlySet<string> = new Set([
  ...[
    '@parcel/watcher',
    '@swc/core',
    'argon2',
    'bcrypt',
    'better-sqlite3',
    'bufferutil',
    'canvas',
    'core-js',
    'core-js-pure',
  ],
  ...[
    'cpu-features',
    'deasync',
    'dtrace-provider',
    'es5-ext',
    'esbuild',
    'fsevents',
    'iconv',
    'leveldown',
    'msgpackr-extract',
  ],
  ...['nodemon', 'protobufjs', 're2', 'sharp', 'sodium-native', 'sqlite3', 'ssh2', 'unrs-resolver', 'utf-8-validate'],
])

/** What an installation by npm, pnpm or yarn 1 depends on, from the manifest, the lock file and the settings. */
export function nodeInputs(texts: RootTexts): InstallInputs {
  const lockName = npmLocks.find(name => texts.has(name))
  const obstacle = [...nodeInputNames, ...moreToInstall].find(name => !judgedApart.has(name) && texts.has(name))
  if (obstacle) return because(`${obstacle} is in the folder of the application`)
  if (!lockName) return otherLocks.some(name => texts.has(name)) ? otherInputs(texts) : unlockedInputs(texts)
  const [manifest, lock] = [objectOf(texts.get('package.json')), objectOf(texts.get(lockName))]
  if (!manifest) return because('package.json cannot be read')
  if (!lock) return because(`${lockName} cannot be read`)
  const archives = archivesOf(manifest)
  const reason =
    ofManifest(manifest, archives) ??
    ofLock(lock, lockName, archives) ??
    ofArchives(archives, lock, lockName) ??
    ofSettings(texts)
  if (reason) return because(reason)
  // npm reads only the first of two lock files.
  const files = ['package.json', lockName, '.npmrc'].filter(name => texts.has(name))
  return { files: [...files, ...new Set(archives.values())], isPinned: isPinnedBy(lock) }
}

/** The same without a lock file: npm then resolves versions, and only its report names the packages with scripts. */
function unlockedInputs(texts: RootTexts): InstallInputs {
  // `npm install` builds on what is there, unlike `npm ci`.
  if (texts.has(modulesFolder)) return because(`${modulesFolder} is in the folder of the application`)
  const manifest = objectOf(texts.get('package.json'))
  if (!manifest) return because('package.json cannot be read')
  const reason = ofManifest(manifest) ?? ofSettings(texts)
  if (reason) return because(reason)
  const files = ['package.json', '.npmrc'].filter(name => texts.has(name))
  return { files, isPinned: false, isShownAfter: true }
}

/** Fields of a manifest by which pnpm and yarn take packages from elsewhere, change them or lay them out in another way. */
const steeringFields = ['resolutions', 'installConfig', 'dependenciesMeta', 'pnpm']

/** The same with a lock file of pnpm or yarn: which packages have scripts, only what they have installed shows. */
function otherInputs(texts: RootTexts): InstallInputs {
  if (texts.has(modulesFolder)) return because(`${modulesFolder} is in the folder of the application`)
  const manifest = objectOf(texts.get('package.json'))
  if (!manifest) return because('package.json cannot be read')
  const steering = steeringFields.find(field => !isEmpty(manifest[field]))
  if (steering) return because(`package.json has the field ${steering}`)
  const reason = ofManifest(manifest) ?? ofSettings(texts)
  if (reason) return because(reason)
  const locked = otherPackages(texts, false)
  if ('because' in locked) return because(locked.because)
  const files = ['package.json', locked.lock, '.npmrc'].filter(name => texts.has(name))
  return { files, isPinned: [...locked.packages.values()].every(({ isPinned }) => isPinned), isShownAfter: true }
}

/** Why packages that a step has installed, by its report, may have read more than manifest and settings; null when they have not. */
export function dependedOnMore(report: string | null): string | null {
  const packages = objectOf(report)
  return packages ? ofLock(packages, 'the report of the step') : 'the step has left no report'
}

const isMember = (name: string): boolean => name === 'package.json' || archiveName.test(name)

/** Names that a project may install from too, in any folder: where it has workspaces, or packages from folders and archives of its own. */
export function memberNames(manifest: string, names: readonly string[]): ((name: string) => boolean) | null {
  const fields = objectOf(manifest)
  const hasMembers = names.includes(membersFile) || !fields || !isEmpty(fields.workspaces) || localIn(fields) !== null
  return hasMembers ? isMember : null
}

const packageLists = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'overrides']

/** Why an installation by this manifest reads more than it and its lock file; null when it does not. */
function ofManifest(manifest: Fields, archives: OwnArchives = new Map()): string | null {
  const scripts = manifest.scripts ?? {}
  if (typeof scripts !== 'object') return 'the scripts of package.json cannot be read'
  const script = Object.keys(scripts).find(name => installScripts.test(name) || changeScripts.test(name))
  if (script) return `the script "${script}" of package.json may read other files`
  if (!isEmpty(manifest.workspaces)) return 'package.json has workspaces'
  return localIn(manifest, archives)
}

/** The first source of a package that may be another file of the project than these archives, in words; null without one. */
function localIn(manifest: Fields, archives: OwnArchives = new Map()): string | null {
  for (const list of packageLists) {
    const local = localSource(withoutArchives(manifest[list] ?? {}, list, archives), list, 0)
    if (local) return local
  }
  return null
}

const maxNested = 20

/** The first source in a list of packages that may be a file of the project; overrides are nested. */
function localSource(list: unknown, name: string, depth: number): string | null {
  if (typeof list === 'string') return isElsewhere(list) ? null : `package.json takes ${name} from "${list}"`
  if (typeof list !== 'object' || list === null || depth > maxNested) return `${name} of package.json cannot be read`
  for (const [key, value] of Object.entries(list)) {
    const local = localSource(value, key, depth + 1)
    if (local) return local
  }
  return null
}

/** A range or a tag of versions, or a reference to another entry of the manifest (`$name`). */
const registryRange = /^[\w^~<>=|*+$@-][\w.^~<>=|*+$@ -]*$|^$/
const addresses = /^(?:https?|git|git\+https?|git\+ssh|github|gitlab|bitbucket):[^\\]*$/i
const alias = /^npm:(?:@[\w.-]+\/)?[\w.-]+(?:@([\w.^~<>=|*+ -]*))?$/
/** A file of packages, as npm and pip know it by its name. */
export const archiveName = /\.(?:tgz|tar|tar\.\w+|tbz|tlz|txz|whl|zip)$/i

/** Whether a source of a package lies in a registry or at an address, as npm reads it. */
const isElsewhere = (source: string): boolean =>
  source.length <= maxLine &&
  (addresses.test(source) || alias.test(source) || (registryRange.test(source) && !archiveName.test(source)))

/** Why an installation by this lock file reads more than it; null when it does not. */
function ofLock({ lockfileVersion, packages }: Fields, name: string, archives: OwnArchives = new Map()): string | null {
  if (lockfileVersion !== 2 && lockfileVersion !== 3)
    return `${name} has another version than 2 or 3, and does not say which packages run scripts`
  if (typeof packages !== 'object' || packages === null) return `${name} cannot be read`
  const archivePaths = new Set<unknown>([...archives.values()].map(path => `file:${path}`))
  for (const [path, value] of Object.entries(packages)) {
    if (typeof value !== 'object' || value === null) return `${name} cannot be read`
    const { link, resolved, hasInstallScript, name: aliased } = value as Fields
    if (path === '') continue
    if (!path.startsWith('node_modules/') || link !== undefined) return `${name} links ${path}, a folder of the project`
    const isKnown = typeof resolved === 'string' && resolved.length <= maxLine && addresses.test(resolved)
    if (resolved !== undefined && !isKnown && !archivePaths.has(resolved)) return `${name} takes ${path} from a file`
    const own =
      typeof aliased === 'string' ? aliased : path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    if (hasInstallScript && !ownFolderOnly.has(own)) return `the package ${own} runs a script that may read other files`
  }
  return null
}

const digest = /^sha(?:1|256|384|512)-/

/** Whether a lock file has a digest of each package; those in a bundle lie in the archive of another. A commit of Git has none. */
const isPinnedBy = ({ packages }: Fields): boolean =>
  Object.entries(packages as Record<string, Fields>).every(
    ([path, { integrity, inBundle, resolved }]) =>
      path === '' ||
      (inBundle === true && resolved === undefined) ||
      (typeof integrity === 'string' && digest.test(integrity)),
  )

/** Settings of npm that name no file. */
const plainSettings =
  /^\s*(?:[;#].*|(?:@[\w.-]+:)?registry\s*=.*|\/\/[^=]*:(?:_authToken|_auth|_password|username|email|always-auth)\s*=.*|(?:always-auth|audit|engine-strict|force|fund|ignore-scripts|include|legacy-peer-deps|loglevel|maxsockets|omit|optional|package-lock|prefer-dedupe|progress|save-exact|save-prefix|strict-peer-deps|strict-ssl)(?:\s*=.*)?)?$/

function ofSettings(texts: RootTexts): string | null {
  if (!texts.has('.npmrc')) return null
  const text = texts.get('.npmrc')
  if (typeof text !== 'string') return '.npmrc cannot be read'
  return text.split(/\r\n|[\r\n]/).every(line => line.length <= maxLine && plainSettings.test(line))
    ? null
    : '.npmrc has a setting that may name another file'
}
