import { posix } from 'node:path'
import {
  composerDependedOnMore,
  composerInputNames,
  composerInputs,
  composerLeftOut,
  composerReport,
} from './composer-inputs.ts'
import { hasNoRequirement, pythonInputs } from './pip-inputs.ts'
import { fileWord, type Runtime } from './runtime.ts'

const dependencies = { from: '.berth', at: '/opt/build' }

export const python: Runtime = {
  language: 'python',
  title: 'Python',
  extensions: ['py'],
  aliases: ['python'],
  versions: ['3.11'],
  recommended: '3.11',
  latest: '3.11',
  dependencyFiles: ['requirements.txt'],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `berth/python:${version}`,
  buildImage: version => `berth/python:${version}`,
  official: version => `python:${version}-slim-bookworm`,
  install: ({ files }) =>
    files.includes('requirements.txt')
      ? 'python3 -m pip install --no-cache-dir --disable-pip-version-check --no-input --target .berth -r requirements.txt && mkdir -p .berth'
      : null,
  requestsNothing: hasNoRequirement,
  installInputs: pythonInputs,
  dependencies,
  start: main => `exec python3 ${fileWord(main)}`,
  env: {
    PYTHONUNBUFFERED: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONPATH: '/opt/build',
    PATH: '/opt/build/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  },
}

/** Whether a Gemfile has comments and empty lines only, none of which may be an encoding that Ruby does not know. */
const hasNoGem = (text: string): boolean =>
  text.split('\n').every(line => /^[ \t\r]*(?:#.*)?\r?$/.test(line) && !/coding/i.test(line))

export const ruby: Runtime = {
  language: 'ruby',
  title: 'Ruby',
  extensions: ['rb'],
  aliases: ['ruby'],
  versions: ['3.4', '3.3'],
  recommended: '3.3',
  latest: '3.4',
  dependencyFiles: ['Gemfile'],
  // bundler reads it instead of a Gemfile.
  lockFiles: ['gems.rb'],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `ruby:${version}-slim-bookworm`,
  // Gems with native extensions need the compiler of the full image.
  buildImage: version => `ruby:${version}-bookworm`,
  official: () => null,
  install: ({ files }) =>
    files.includes('Gemfile')
      ? 'BUNDLE_PATH=/app/.berth BUNDLE_WITHOUT=development:test BUNDLE_GLOBAL_GEM_CACHE=true BUNDLE_USER_CACHE=/app/.berth-cache ' +
        'bundle install && rm -rf .berth-cache/extensions .berth-cache/git .berth-cache/compact_index && mkdir -p .berth'
      : null,
  // bundler writes the lock file itself when the program starts, which then runs as it does after an installation.
  requestsNothing: (text, names) => !names.includes('gems.rb') && hasNoGem(text),
  // Archives, which bundler compares with the digests of its index. It stores built extensions next to them, of which it restores only a part.
  // Not in /tmp, which is memory.
  toolFolders: ['/app/.berth-cache'],
  dependencies,
  start: main =>
    `if [ -f Gemfile ]; then exec bundle exec ruby ${fileWord(main)}; else exec ruby ${fileWord(main)}; fi`,
  env: {
    BUNDLE_PATH: '/opt/build',
    BUNDLE_WITHOUT: 'development:test',
    BUNDLE_APP_CONFIG: '/tmp/.bundle',
    RACK_ENV: 'production',
  },
}

/** With a port the built-in server serves the folder of MAIN; without one MAIN is a program. */
export const php: Runtime = {
  language: 'php',
  title: 'PHP',
  extensions: ['php'],
  aliases: ['php'],
  versions: ['8.4', '8.3'],
  recommended: '8.3',
  latest: '8.4',
  dependencyFiles: ['composer.json'],
  lockFiles: ['composer.lock'],
  writtenLock: 'composer.lock',
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `php:${version}-cli`,
  buildImage: () => 'composer:2',
  official: () => null,
  install: ({ files }) =>
    files.includes('composer.json')
      ? 'composer install --no-dev --no-interaction --no-progress --ignore-platform-reqs && mkdir -p vendor'
      : null,
  inputNames: composerInputNames,
  installInputs: composerInputs,
  installReport: () => composerReport,
  dependedOnMore: composerDependedOnMore,
  leftOut: composerLeftOut,
  // The autoloader finds the project in the folder above it.
  dependencies: { from: 'vendor', at: '/app/vendor' },
  start: main =>
    `if [ -n "$PORT" ]; then exec php -S "0.0.0.0:$PORT" -t ${fileWord(posix.dirname(main))}; else exec php ${fileWord(main)}; fi`,
  env: {},
}

/** A project with mix.exs is compiled once; a single script is run as it is. */
export const elixir: Runtime = {
  language: 'elixir',
  title: 'Elixir',
  extensions: ['ex', 'exs'],
  aliases: ['elixir'],
  versions: ['1.18', '1.17'],
  recommended: '1.17',
  latest: '1.18',
  dependencyFiles: ['mix.exs'],
  dependenciesRequired: false,
  defaultPort: 80,
  image: version => `elixir:${version}`,
  buildImage: version => `elixir:${version}`,
  official: () => null,
  install: ({ files }) =>
    files.includes('mix.exs')
      ? 'export MIX_ENV=prod MIX_HOME=/app/.berth/mix MIX_DEPS_PATH=/app/.berth/deps MIX_BUILD_PATH=/app/.berth/build && ' +
        'mix local.hex --force && mix local.rebar --force && mix deps.get --only prod && mix compile'
      : null,
  // Archives, which Hex compares with the digests of its index. What mix and rebar build is compared by times, and is built anew.
  toolFolders: ['/tmp/.hex/packages'],
  dependencies,
  start: main => {
    const script = posix.extname(main) === '.exs' ? ` ${fileWord(main)}` : ''
    return (
      `if [ -f mix.exs ]; then exec mix run --no-compile --no-deps-check --no-halt${script}; ` +
      `else exec elixir --no-halt ${fileWord(main)}; fi`
    )
  },
  env: {
    MIX_ENV: 'prod',
    MIX_HOME: '/opt/build/mix',
    MIX_DEPS_PATH: '/opt/build/deps',
    MIX_BUILD_PATH: '/opt/build/build',
  },
}
