import { type Environment, list } from '../environment.ts'
import { type Language, languages, runtimes } from '../runtimes.ts'

/** Languages whose images every host prepares after its start, besides those of its applications; null = none at all. */
export type WarmLanguages = readonly Language[] | null

/** The images that every installation should have before the first upload. */
export const firstLanguages: readonly Language[] = ['javascript', 'python', 'static']

/** Throws an Error that names the setting and what it accepts. */
export function warmLanguages(env: Environment): WarmLanguages {
  const text = env.WARM_IMAGES
  if (text === undefined) return firstLanguages
  const names = list(text)
  if (names.length === 1 && names[0] === 'none') return null
  const isLanguage = (name: string): name is Language => (languages as readonly string[]).includes(name)
  if (names.length === 0 || !names.every(isLanguage))
    throw new Error(
      `The setting WARM_IMAGES is "${text}"; it must be \`none\`, or some of ${languages.join(', ')}, separated by commas.`,
    )
  return [...new Set(names)]
}

/** A runtime that applications use. */
export interface UsedRuntime {
  language: string
  version: string
}

/** The images of these runtimes in their order, then those of the languages in their recommended versions; nothing that is not on offer. */
export function imagesToWarm(used: readonly UsedRuntime[], warm: readonly Language[]): string[] {
  const recommended = warm.map(language => ({ language, version: runtimes[language].recommended }))
  const images = [...used, ...recommended].flatMap(({ language, version }) => {
    const runtime = Object.values(runtimes).find(candidate => candidate.language === language)
    return runtime?.versions.includes(version) ? [runtime.buildImage(version), runtime.image(version)] : []
  })
  return [...new Set(images)]
}
