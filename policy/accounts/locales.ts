import { type MailLocale, mailLocales } from '../mail/template.ts'

/** Languages that an account may choose (contract 3.4); mail exists in more. */
export const choosableLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN'] as const satisfies readonly MailLocale[]

/** Whether mail exists in a language; operators may set any of these. */
export const isLocale = (text: string): text is MailLocale => mailLocales.some(locale => locale === text)

/** The supported language that an `Accept-Language` prefers, matched by its first part if necessary; English when it names none. */
export function localeAccepted(header: string | undefined): MailLocale {
  const preferences = (header ?? '').slice(0, 1000).split(',').map(preferenceOf)
  const accepted = preferences.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight)
  for (const { tag } of accepted) {
    const match = mailLocales.find(locale => locale.toLowerCase() === tag) ?? mailLocales.find(sameLanguage(tag))
    if (match) return match
  }
  return 'en-US'
}

const sameLanguage = (tag: string) => (locale: string) => locale.split('-')[0] === tag.split('-')[0]

/** One preference, such as `pt-BR;q=0.8`; a weight that is not a number is 0. */
function preferenceOf(text: string): { tag: string; weight: number } {
  const [tag = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
  const weight = parameters.find(parameter => parameter.startsWith('q='))
  return { tag, weight: weight === undefined ? 1 : Number(weight.slice(2)) || 0 }
}
