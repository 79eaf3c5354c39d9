import { type MailLocale, mailLocales } from '../mail/template.ts'

/** Languages that an account may choose itself (contract 3.4); mail is written in more. */
export const choosableLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN'] as const satisfies readonly MailLocale[]

/** Whether mail is written in a language; an operator may give an account any such. */
export const isLocale = (text: string): text is MailLocale => mailLocales.some(locale => locale === text)

/** The language of ours that an `Accept-Language` likes best, by its first part alone where need be; English when it names none. */
export function localeAccepted(header: string | undefined): MailLocale {
  const wishes = (header ?? '').slice(0, 1000).split(',').map(wishOf)
  const liked = wishes.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight)
  for (const { tag } of liked) {
    const found = mailLocales.find(locale => locale.toLowerCase() === tag) ?? mailLocales.find(sameLanguage(tag))
    if (found) return found
  }
  return 'en-US'
}

const sameLanguage = (tag: string) => (locale: string) => locale.split('-')[0] === tag.split('-')[0]

/** One wish, such as `pt-BR;q=0.8`; a weight that is no number counts for nothing. */
function wishOf(text: string): { tag: string; weight: number } {
  const [tag = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
  const weight = parameters.find(parameter => parameter.startsWith('q='))
  return { tag, weight: weight === undefined ? 1 : Number(weight.slice(2)) || 0 }
}
