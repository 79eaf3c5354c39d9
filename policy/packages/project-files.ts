import type { RootTexts } from '../runtimes/root-texts.ts'
import type { Language } from '../runtimes/runtime.ts'
import type { RegistryKind } from './registries.ts'

interface RegistryFiles {
  kind: RegistryKind
  names: readonly string[]
  /** The first thing that may name a registry or credentials. */
  obstacle(texts: RootTexts): string | null
}

const npm: RegistryFiles = {
  kind: 'npm',
  names: ['.npmrc', '.yarnrc', '.yarnrc.yml', 'pnpm-workspace.yaml'],
  obstacle(texts) {
    for (const name of ['.yarnrc', '.yarnrc.yml']) if (texts.has(name)) return name
    const workspace = texts.get('pnpm-workspace.yaml')
    if (workspace === null || /registr|auth|npmrc/i.test(workspace ?? '')) return 'pnpm-workspace.yaml'
    const npmrc = texts.get('.npmrc')
    return npmrc === undefined || npmrc?.split(/\r\n|[\r\n]/).every(isHarmless) ? null : '.npmrc'
  },
}

/** Settings of npm and pnpm that name neither a registry nor what opens one; everything else may. */
const harmless = [
  ...['audit', 'auto-install-peers', 'engine-strict', 'force', 'fund', 'ignore-scripts', 'include', 'legacy-peer-deps'],
  ...['loglevel', 'maxsockets', 'node-linker', 'omit', 'optional', 'package-lock', 'prefer-dedupe', 'progress'],
  ...['save-exact', 'save-prefix', 'shamefully-hoist', 'strict-peer-dependencies', 'strict-peer-deps'],
]
const harmlessLine = new RegExp(`^\\s*(?:[;#].*|(?:${harmless.join('|')})(?:\\s*=.*)?)?$`)
const maxLine = 1000
const isHarmless = (line: string): boolean => line.length <= maxLine && harmlessLine.test(line)

const pip: RegistryFiles = {
  kind: 'pip',
  names: ['requirements.txt', 'pip.conf'],
  obstacle(texts) {
    if (texts.has('pip.conf')) return 'pip.conf'
    const lines = texts.get('requirements.txt')?.split(/[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/)
    return lines?.every(line => !/^\s*-/.test(line) || plainOption.test(line)) ? null : 'requirements.txt'
  },
}

/** Options of a list of requirements that name no registry, and no other list that might. */
const plainOption = /^\s*--(?:hash|pre|prefer-binary|require-hashes|(?:no|only)-binary)(?:[\s=]|$)/

/** No file of a project names a module proxy. */
const go: RegistryFiles = { kind: 'go', names: [], obstacle: () => null }

/** Settings of cargo that may name a registry, or a proxy by which it would ask the cache. */
const cargo: RegistryFiles = {
  kind: 'cargo',
  names: ['.cargo'],
  obstacle: texts => (texts.has('.cargo') ? '.cargo' : null),
}

/** The step itself looks at all folders of a project of Maven. */
const maven: RegistryFiles = { kind: 'maven', names: [], obstacle: () => null }

/** A Gemfile names its sources. The cache stands in for the usual one alone, and settings of a project come before those of the step. */
const bundler: RegistryFiles = { kind: 'bundler', names: [], obstacle: () => null }

const files: Partial<Record<Language, RegistryFiles>> = {
  javascript: npm,
  typescript: npm,
  python: pip,
  go,
  rust: cargo,
  java: maven,
  ruby: bundler,
}

/** Names at the root of the sources that `registryFor` looks at. */
export const registryFileNames = (language: Language): readonly string[] => files[language]?.names ?? []

/** The registry that an install step uses because its sources name none; otherwise the file that may, or null where there is no cache for the language. */
export function registryFor(language: Language, texts: RootTexts): { kind: RegistryKind } | { named: string } | null {
  const registryFiles = files[language]
  if (!registryFiles) return null
  const named = registryFiles.obstacle(texts)
  return named === null ? { kind: registryFiles.kind } : { named }
}
