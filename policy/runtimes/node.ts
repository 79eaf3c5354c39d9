import {
  hasWorkspaces,
  installScripts,
  isEmpty,
  moreToInstall,
  nodeInputNames,
  nodeInputs,
  npmDependedOnMore,
  objectOf,
} from './install-inputs.ts'
import { npmLeftOut, npmLeftOutUnlocked, npmReport } from './npm-result.ts'
import { fileWord, type Runtime, type Sources } from './runtime.ts'

const dependencies = { from: 'node_modules', at: '/app/node_modules' }

/** The lock file determines the package manager, so that builds are repeatable; without one npm resolves versions. */
function install({ files }: Sources, production: boolean): string | null {
  if (!files.includes('package.json')) return null
  const omit = production ? ' --omit=dev' : ''
  const npm = '--no-audit --no-fund'
  const step = files.some(file => file === 'package-lock.json' || file === 'npm-shrinkwrap.json')
    ? `npm ci${omit} ${npm}`
    : files.includes('pnpm-lock.yaml')
      ? `npx --yes pnpm@9 install --frozen-lockfile${production ? ' --prod' : ''}`
      : files.includes('yarn.lock')
        ? `npx --yes yarn@1 install --frozen-lockfile --non-interactive${production ? ' --production' : ''}`
        : `npm install${omit} ${npm}`
  // Without dependencies no folder is created, and the mount needs one.
  return `${step} && mkdir -p node_modules`
}

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
    leftOut: (texts, report, architecture) => {
      const lock = texts.get('npm-shrinkwrap.json') ?? texts.get('package-lock.json') ?? ''
      return npmLeftOut(lock, report, { architecture, omitsDev })
    },
    afterwards: {
      dependedOnMore: npmDependedOnMore,
      leftOut: (lock, report, architecture) => npmLeftOutUnlocked(lock, report, { architecture, omitsDev }),
    },
  }) satisfies Partial<Runtime>

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
  hasMembers: hasWorkspaces,
  installInputs: nodeInputs,
  writtenLock: 'package-lock.json',
  installReport: npmReport,
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
