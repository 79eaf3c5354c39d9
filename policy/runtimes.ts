import { dotnet, go, java, rust } from './runtimes/compiled.ts'
import { javascript, typescript } from './runtimes/node.ts'
import { type Language, languages, type Runtime } from './runtimes/runtime.ts'
import { elixir, php, python, ruby } from './runtimes/scripted.ts'
import { staticSite } from './runtimes/static.ts'

export { type Language, languages, type Runtime } from './runtimes/runtime.ts'

/** How each language runs (contract 5.13). A new runtime is a new row, and a recipe in `runtimes/` where no registry answers. */
export const runtimes: Readonly<Record<Language, Runtime>> = {
  javascript,
  typescript,
  python,
  java,
  elixir,
  go,
  rust,
  ruby,
  php,
  dotnet,
  static: staticSite,
}

/** Names in an application's folder at which installed dependencies are mounted in its containers, over what lies there. */
export const mountedFolders: ReadonlySet<string> = new Set(
  Object.values(runtimes)
    .map(runtime => runtime.dependencies?.at ?? '')
    .filter(at => at.startsWith('/app/'))
    .map(at => at.slice('/app/'.length)),
)

/** Language of a program file by its extension, or null. */
export function languageOfMain(main: string): Language | null {
  const extension = /\.([A-Za-z]+)$/.exec(main)?.[1]?.toLowerCase()
  return (
    languages.find(language => extension !== undefined && runtimes[language].extensions.includes(extension)) ?? null
  )
}

/** Language of a RUNTIME value, in any case, or null. */
export function languageOfRuntime(word: string): Language | null {
  return languages.find(language => runtimes[language].aliases.includes(word.toLowerCase())) ?? null
}

/**
 * The version of the table that VERSION stands for (`recommended`, `latest`, a version, a shorter one such as `3`, or a
 * pinned full one), or null when the platform does not offer it (INVALID_VERSION).
 */
export function offered(language: Language, version: string): string | null {
  const { versions, full, recommended, latest } = runtimes[language]
  const name = version.toLowerCase()
  if (name === 'recommended') return recommended
  if (name === 'latest') return latest
  return versions.find(v => v === name || v.startsWith(`${name}.`) || full?.[v] === name) ?? null
}

/** Names at the root of the sources that the install step of a language depends on; `*.x` is any file of that extension. */
export const namesForInstall = (language: Language): readonly string[] => [
  ...runtimes[language].dependencyFiles,
  ...(runtimes[language].lockFiles ?? []),
]

/** The same with the settings of its tools: an upload of one of them brings other dependencies. What is mounted over is hidden, so it brings none. */
export const namesThatInstall = (language: Language): readonly string[] => [
  ...namesForInstall(language),
  ...(runtimes[language].inputNames ?? []).filter(name => !mountedFolders.has(name)),
]

/** The dependency file among these root names that the language's install step reads, or null. */
export function dependencyFile(language: Language, files: readonly string[]): string | null {
  const matches = (name: string, pattern: string) =>
    pattern.startsWith('*') ? name.endsWith(pattern.slice(1)) : name === pattern
  for (const pattern of runtimes[language].dependencyFiles) {
    const name = files.find(file => matches(file, pattern))
    if (name !== undefined) return name
  }
  return null
}
