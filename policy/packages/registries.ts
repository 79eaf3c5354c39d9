import type { Environment } from '../environment.ts'
import { cargoHome, mavenHome } from '../runtimes/compiled.ts'
import { quotedShell } from '../runtimes/runtime.ts'
import { goChecksums } from './go-modules.ts'

export const registryKinds = ['npm', 'pip', 'go', 'cargo', 'maven', 'bundler'] as const

/** Registries that answer in the same way. */
export type RegistryKind = (typeof registryKinds)[number]

/** What an operator has set for each kind: an address, `off`, or null for the one that the package manager of an image uses. */
export type NamedRegistries = Readonly<Record<RegistryKind, string | null>>

/** The settings PACKAGE_CACHE_*. Throws an Error that names the setting when it is no address of a registry. */
export function namedRegistries(env: Environment): NamedRegistries {
  return {
    npm: registryIn('PACKAGE_CACHE_NPM', env.PACKAGE_CACHE_NPM),
    pip: registryIn('PACKAGE_CACHE_PIP', env.PACKAGE_CACHE_PIP),
    go: registryIn('PACKAGE_CACHE_GO', env.PACKAGE_CACHE_GO),
    cargo: registryIn('PACKAGE_CACHE_CARGO', env.PACKAGE_CACHE_CARGO),
    maven: registryIn('PACKAGE_CACHE_MAVEN', env.PACKAGE_CACHE_MAVEN),
    bundler: registryIn('PACKAGE_CACHE_BUNDLER', env.PACKAGE_CACHE_BUNDLER),
  }
}

function registryIn(setting: string, text: string | undefined): string | null {
  if (text === undefined || text === 'off') return text ?? null
  const url = registryUrl(text)
  if (url !== null) return url
  throw new Error(`The setting ${setting} is "${text}"; it must be off, or an http or https address alone.`)
}

/** The address with a slash at its end; null when it is no http or https address, or has credentials, a query or a fragment. */
export function registryUrl(text: string): string | null {
  if (!/^https?:\/\/[\x21-\x7e]+$/i.test(text) || !URL.canParse(text)) return null
  const { username, password, search, hash, origin, pathname } = new URL(text)
  if (username || password || search || hash || pathname.includes('//')) return null
  return origin + pathname.replace(/\/?$/, '/')
}

export interface PackageManager {
  /** Shell text that reports what the package manager of an image uses where no project says otherwise. */
  query: string
  /** The address in what it has printed, or why the cache cannot stand in for it. */
  registryIn(printed: string): { url: string } | { because: string }
  /** Shell text after which an install step uses the cache at this address instead. */
  use(base: URL): string
  /** Shell text before the step is tried once more: what a failed attempt left would be taken for installed. */
  anew: string
}

const exported = (variables: Record<string, string>): string =>
  `export ${Object.entries(variables)
    .map(([name, value]) => `${name}=${quotedShell(value)}`)
    .join(' ')}`

const unread = { because: 'the image does not say which registry it uses' }

/**
 * Shell text that succeeds when the go command looks up every module that it requests from a proxy in the usual checksum database. The cache
 * does, and names of private modules must not reach it. Only the step itself knows its variables, also where an operator has named the registry.
 */
const looksUpAll = `(cd / && GOTOOLCHAIN=local go env GOSUMDB GONOSUMDB GONOPROXY) | {
  read -r database; read -r unchecked; read -r direct
  [ "$database" = ${goChecksums} ] && { [ -z "$unchecked" ] || [ "$unchecked" = "$direct" ]; }; }`
const notLookedUp =
  '[Names of modules must not reach the checksum database. The packages are requested without the cache of the host.]'

/**
 * Shell text that succeeds when no file in the sources may name a repository of Maven: a mirror of `central` stands in for a `central` of the
 * project, too. Such files lie in any folder.
 */
const namesNoRepository = `{ grep -rqsE --include='*.xml' --include='*.pom' '<(repositories|pluginRepositories|mirrors|servers)([[:space:]/>]|$)' .; [ $? = 1 ]; } &&
  settings=$(find . -path '*/.mvn/*' ! -path '*/.mvn/wrapper*' -print -quit) && [ -z "$settings" ]`
const named =
  '[A file of the project may name a repository of Maven. The packages are requested without the cache of the host.]'

/** Settings of Maven with this address as its usual repository. Under the same name, so that what is downloaded counts as downloaded from there. */
const mavenSettings = ({ href }: URL): string =>
  `<settings><mirrors><mirror><id>central</id><mirrorOf>central</mirrorOf><url>${href.replaceAll('&', '&amp;')}</url></mirror></mirrors></settings>`

export const packageManagers: Readonly<Record<RegistryKind, PackageManager>> = {
  npm: {
    query: 'cd / && npm config ls -l 2>/dev/null',
    registryIn(printed) {
      // A value that another one overrides stands behind a semicolon.
      if (/^(?:; )?"?(?:\/\/|@)/m.test(printed)) return { because: 'the image has credentials or a scope of npm' }
      const url = registryUrl(/^registry = "([^"]+)"/m.exec(printed)?.[1] ?? '')
      return url ? { url } : unread
    },
    // npm, pnpm and yarn 1 read this name in any case.
    use: base => exported({ NPM_CONFIG_REGISTRY: base.href }),
    anew: '',
  },
  pip: {
    // Only pip itself knows what its files, variables and defaults come to.
    query: `python3 -c "import json; from pip._internal.commands import create_command as c
o = c('install').parse_args([])[0]
print('\\n' + json.dumps([o.index_url, len(o.extra_index_urls + o.find_links) + bool(o.no_index or o.client_cert)]))" 2>/dev/null`,
    registryIn(printed) {
      const [, text, others] = /^\["([^"]+)", (\d+)\]$/m.exec(printed) ?? []
      if (others !== undefined && others !== '0') return { because: 'the image has further sources of pip' }
      const url = registryUrl(text ?? '')
      return url ? { url } : unread
    },
    // All releases of pip accept a trusted host without its port.
    use: base => exported({ PIP_INDEX_URL: base.href, PIP_TRUSTED_HOST: base.hostname }),
    anew: 'rm -rf .berth; ',
  },
  go: {
    query: 'go env GOPROXY GOSUMDB 2>/dev/null',
    registryIn(printed) {
      const [proxies = '', checksums] = printed.trim().split('\n')
      const [, text, others] = /^([^,|]+)(.*)$/.exec(proxies) ?? []
      if (others !== ',direct') return { because: 'the image has no module proxy, or several' }
      if (checksums !== goChecksums) return { because: 'the image has a checksum database of its own, or none' }
      const url = registryUrl(text ?? '')
      return url ? { url } : unread
    },
    // What the proxy does not have, such as a private module, comes from its own repository, as by default.
    use: base =>
      `if ${looksUpAll}; then ${exported({ GOPROXY: `${base.href},direct` })}; else echo '${notLookedUp}'; fi`,
    anew: '',
  },
  cargo: {
    // It names its index only when it does not reach it, and it has to be a part of a project.
    query: `mkdir -p /tmp/x/src && cd /tmp/x && : > src/lib.rs && printf '[package]\\nname = "x"\\nversion = "0.0.0"\\n[dependencies]\\nx = "1"\\n' > Cargo.toml &&
NO_PROXY= no_proxy= CARGO_HOME=${cargoHome} CARGO_NET_RETRY=0 CARGO_HTTP_PROXY=http://127.0.0.1:9 cargo fetch 2>&1`,
    registryIn(printed) {
      const url = registryUrl(/failed to download from `([^`]+\/)config\.json`/.exec(printed)?.[1] ?? '')
      return url ? { url } : unread
    },
    // No variable replaces a source. Files of a project and of the image come before this one.
    use: base =>
      `mkdir -p ${cargoHome} && printf '[source.crates-io]\\nreplace-with = "host"\\n[source.host]\\nregistry = "sparse+%s"\\n' ${quotedShell(base.href)} > ${cargoHome}/config.toml`,
    anew: '',
  },
  maven: {
    // Offline it names where it would look for the parent of a project. Its settings may contain credentials and a proxy.
    query: `mkdir -p /tmp/x && cd /tmp/x &&
printf '<project><modelVersion>4.0.0</modelVersion><parent><groupId>x</groupId><artifactId>x</artifactId><version>1</version></parent><artifactId>y</artifactId></project>' > pom.xml &&
{ mvn -B -X -o -Dmaven.repo.local=/tmp/x/local validate > report 2>&1; cat report; sed -n 's/^.DEBUG. Reading [a-z]* settings from //p' report | xargs cat 2>/dev/null; }`,
    registryIn(printed) {
      if (/<(?:server|proxy)>/.test(printed.replace(/<!--.*?-->/gs, '')))
        return { because: 'the image has credentials or a proxy of Maven' }
      const url =
        /^\[DEBUG\] Resolving artifact x:x:pom:1 from \[[^\s(]+ \((\S+), default, releases(?:\+snapshots)?\)\]/m
      const address = registryUrl(url.exec(printed)?.[1] ?? '')
      return address ? { url: address } : unread
    },
    // No variable replaces a repository. A step that writes settings of its own, or names some, does without the cache.
    use: base =>
      `if ${namesNoRepository}; then mkdir -p ${mavenHome} && printf %s ${quotedShell(mavenSettings(base))} > ${mavenHome}/settings.xml; else echo '${named}'; fi`,
    anew: '',
  },
  bundler: {
    // A Gemfile names its sources itself. The one that the cache stands in for is the usual one of RubyGems, by its name.
    query: `cd / && ruby -e 'puts Gem.default_sources' && echo && bundle config list --parseable`,
    registryIn(printed) {
      const [sources = '', settings] = printed.split('\n\n')
      if (settings === undefined) return unread
      if (/^mirror\./m.test(settings)) return { because: 'the image has a mirror of bundler' }
      const url = registryUrl(sources.trim())
      if (!url) return { because: 'the image has no usual registry of gems, or several' }
      if (settings.includes(new URL(url).host)) return { because: 'the image has credentials of bundler' }
      return { url }
    },
    // Settings of the project, of the image and variables come before this one. Other sources than the usual one stay as they are.
    use: base =>
      `(cd / && bundle config set --global "mirror.$(ruby -e 'print Gem.default_sources.first')" ${quotedShell(base.href)} > /dev/null)`,
    anew: '',
  },
}

/**
 * Whether a step without the cache may get elsewhere what the registry does not have: from the one that an operator has replaced, or from
 * another `central` of Maven, such as one that a published parent of the project names.
 */
export const mayBeElsewhere = (kind: RegistryKind, isNamed: boolean): boolean => isNamed || kind === 'maven'

/** A path of the cache that always answers; followed by the token of a step, it says that the step's container is the one that asks. */
export const upPath = '/~/up'

/** The command of a step that uses the cache if that is reached: a firewall of the machine may drop what builds send there. */
export function withCache(kind: RegistryKind, base: URL, token: string, install: string): string {
  // Not in the environment of the container: an image may have these variables, and then needs them without the cache.
  const use = `if ${reaches(base, `${upPath}/${token}`)}; then ${packageManagers[kind].use(base)}; else echo '${notReached}'; fi`
  return `${use}; ${install}`
}

/**
 * Shell text that succeeds when the cache answers, and fails soon when it does not: a package manager would wait for minutes. All images of
 * builds have this shell, but not all a program for HTTP.
 */
const reaches = ({ hostname, port }: URL, path: string): string =>
  `timeout 3 bash -c 'exec 3<>/dev/tcp/${hostname}/${port} && printf "GET ${path} HTTP/1.0\\r\\n\\r\\n" >&3 && read -r line <&3 && [[ $line == *" 204 "* ]]' 2>/dev/null`

const notReached = '[The cache of packages of the host is not reached. The packages are requested from the registry.]'
