import {
  dependedOnMore,
  installScripts,
  memberNames,
  moreToInstall,
  nodeInputNames,
  nodeInputs,
  npmLocks,
} from './install-inputs.ts'
import { downloads, listInstalled, packagesLeftOut, packagesReport } from './locked-packages.ts'
import { type NpmStep, npmLeftOut, npmLeftOutUnlocked, npmReport } from './npm-result.ts'
import { otherLocks, otherPackages } from './other-locks.ts'
import { isEmpty, objectOf, type RootTexts } from './root-texts.ts'
import { fileWord, type Runtime, type Sources } from './runtime.ts'

const dependencies = { from: 'node_modules', at: '/app/node_modules' }

/** Exact versions: what they install is used again. */
export const managerVersions = ['pnpm@9.15.9', 'yarn@1.22.22'] as const

/**
 * Downloads one of them, as the settings of the project say, and runs its program. By `node`, as nothing in /tmp is executed. What it
 * downloads lies on the application's disk while it runs: /tmp is memory.
 */
const withManager = (manager: (typeof managerVersions)[number], program: string): string =>
  `npm install --prefix /tmp/.manager --userconfig .npmrc --no-audit --no-fund --no-update-notifier ${manager} && ` +
  `node /tmp/.manager/node_modules/${program} && ${listInstalled} && rm -rf ${downloads}`

/** The lock file determines the package manager, so that builds are repeatable; without one npm resolves versions. */
function install({ files }: Sources, production: boolean): string | null {
  if (!files.includes('package.json')) return null
  const omit = production ? ' --omit=dev' : ''
  const npm = '--no-audit --no-fund'
  const [pnpm, yarn] = managerVersions
  const step = hasNpmLock(files)
    ? `npm ci${omit} ${npm}`
    : files.includes('pnpm-lock.yaml')
      ? withManager(
          pnpm,
          `pnpm/bin/pnpm.cjs install --frozen-lockfile --store-dir ${downloads}${production ? ' --prod' : ''}`,
        )
      : files.includes('yarn.lock')
        ? withManager(
            yarn,
            `yarn/bin/yarn.js install --frozen-lockfile --non-interactive --cache-folder ${downloads}${production ? ' --production' : ''}`,
          )
        : `npm install${omit} ${npm}`
  // Without dependencies no folder is created, and the mount needs one.
  return `${step} && mkdir -p node_modules`
}

const hasNpmLock = (names: Iterable<string>): boolean => [...names].some(name => npmLocks.includes(name))
const hasOtherLock = (names: readonly string[]): boolean =>
  !hasNpmLock(names) && names.some(name => otherLocks.includes(name))

/** Fields of a manifest that name packages to install; those for development only where these are installed. */
const packageFields = ['dependencies', 'optionalDependencies', 'peerDependencies', 'workspaces']
const developmentFields = ['devDependencies']

/** A manifest without packages and without scripts of an installation, with nothing else to install. */
function requestsNothing(text: string, names: readonly string[], development: boolean): boolean {
  if (moreToInstall.some(name => names.includes(name))) return false
  const manifest = objectOf(text)
  if (!manifest) return false
  const fields = development ? [...packageFields, ...developmentFields] : packageFields
  const scripts = manifest.scripts ?? {}
  return (
    fields.every(field => isEmpty(manifest[field])) &&
    typeof scripts === 'object' &&
    !Object.keys(scripts).some(name => installScripts.test(name))
  )
}

/** Pinned, so that locally built and pulled images contain the same Node. */
const full: Record<string, string> = { 24: '24.21.0', 22: '22.23.3', 20: '20.20.2' }

/** What the result of a step shows, which installs packages for development or omits them. */
const shownBy = (omitsDev: boolean) =>
  ({
    dependedOnMore,
    leftOut: (texts, written, report, architecture) => {
      const lock = npmLocks.map(name => texts.get(name)).find(text => text !== undefined)
      const step = { architecture, omitsDev }
      if (lock !== undefined) return npmLeftOut(lock, report, step)
      if (!hasOtherLock([...texts.keys()])) return npmLeftOutUnlocked(written, report, step)
      return othersLeftOut(texts, report, step)
    },
  }) satisfies Partial<Runtime>

function othersLeftOut(texts: RootTexts, report: string | null, { architecture, omitsDev }: NpmStep): string | null {
  const locked = otherPackages(texts, omitsDev)
  return 'because' in locked ? locked.because : packagesLeftOut(locked.packages, locked.needs, report, architecture)
}

const shared = {
  versions: ['24', '22', '20'],
  full,
  recommended: '22',
  latest: '24',
  dependencyFiles: ['package.json'],
  lockFiles: ['package-lock.json', 'npm-shrinkwrap.json', 'pnpm-lock.yaml', 'yarn.lock', ...moreToInstall],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `berth/node:${version}`,
  buildImage: version => `berth/node:${version}`,
  official: version => `node:${full[version]}-bookworm-slim`,
  inputNames: nodeInputNames,
  memberNames,
  installInputs: nodeInputs,
  writtenLock: 'package-lock.json',
  installReport: names => (hasOtherLock(names) ? packagesReport : npmReport),
  dependencies,
  env: { NODE_ENV: 'production', NPM_CONFIG_UPDATE_NOTIFIER: 'false' },
} satisfies Partial<Runtime>

export const javascript: Runtime = {
  ...shared,
  language: 'javascript',
  title: 'JavaScript',
  extensions: ['js', 'jsx', 'mjs', 'cjs', 'mjsx', 'cjsx'],
  aliases: ['nodejs', 'javascript'],
  ...shownBy(true),
  install: sources => install(sources, true),
  requestsNothing: (text, names) => requestsNothing(text, names, false),
  start: main => `exec node ${fileWord(main)}`,
}

/** The project's own tsx where it is installed, else Node's own type stripping. Tools like tsx are development dependencies. */
export const typescript: Runtime = {
  ...shared,
  language: 'typescript',
  title: 'TypeScript',
  extensions: ['ts', 'mts', 'cts', 'tsx', 'mtsx', 'ctsx'],
  aliases: ['typescript'],
  // Node 20 cannot strip types.
  versions: ['24', '22'],
  ...shownBy(false),
  install: sources => install(sources, false),
  requestsNothing: (text, names) => requestsNothing(text, names, true),
  start: main =>
    `if [ -x node_modules/.bin/tsx ]; then exec node_modules/.bin/tsx ${fileWord(main)}; ` +
    `else exec node --experimental-transform-types --disable-warning=ExperimentalWarning ${fileWord(main)}; fi`,
}
